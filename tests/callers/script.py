"""Carries out a script of calls through the Python package and prints what they answer. See callers.rs."""

import sys
from datetime import timedelta

import waxseal

MICROSECOND = timedelta(microseconds=1)
EPOCH = waxseal._times.EPOCH


def kept(options):
    """Options of a registration as the store keeps them (docs/format.md, section 9.7)."""
    modes, values = ("sync", "async", "deferred"), ("none", "new", "old_new", "hash")
    scope, mode = ("exact", "subtree").index(options["scope"]), modes.index(options["mode"])
    data = [1, 1, 1, scope, 2, 1, mode, 3, 1, values.index(options["values"]), 5, 1, int(options["history"])]
    if options["retention"] is not None:
        number, varint = options["retention"] // MICROSECOND, []
        while number >= 0x80:
            varint.append(number & 0x7F | 0x80)
            number >>= 7
        data += [7, len(varint) + 1, *varint, number]
    return bytes(data)


def shown(value):
    if isinstance(value, dict) and "scope" in value:
        return kept(value).hex()
    if value is None:
        return "absent"
    if isinstance(value, tuple):
        return ":".join(shown(part) for part in value)
    return str(value) if isinstance(value, int) else (value.encode() if isinstance(value, str) else value).hex()


def event(one):
    micros = (one.at - EPOCH) // MICROSECOND
    at = f" at {micros}" if micros < 1_000_000_000 else ""
    fields = "".join(f" {name}={shown(value)}" for name, value in one.fields.items())
    print(f"event {one.target} {one.operation} {one.client}{at} seqno {one.seqno}{fields}")


def events(found):
    for one in found:
        event(one)
    print("ok")


def registrations(found):
    for one in found:
        retention = "forever" if one.retention is None else one.retention // MICROSECOND
        history = "yes" if one.history else "no"
        print(f"registration {one.target} {one.operation} {one.scope} {one.mode} {one.values} {history} {retention}")


class Caller:
    def __init__(self, path):
        self.path = path
        self.name, self.how, self.family_name = "-", "-", "default"
        self.db = waxseal.open(path)
        self.take()

    def take(self):
        self.who = self.db
        if self.name != "-":
            self.who = self.db.session(self.name, None if self.how == "-" else self.how)
        self.family_ = self.who.family(self.family_name)
        print("ok")

    def session(self, name, how="-"):
        self.name, self.how = name, how
        self.take()

    def family(self, name):
        self.family_name = name
        self.take()

    def put(self, key, value):
        self.family_.put(key.encode(), value.encode())
        print("ok")

    def delete(self, key):
        self.family_.delete(key.encode())
        print("ok")

    def drop(self, name):
        self.who.drop_family(name)
        print("ok")

    def flush(self):
        self.db.flush()
        print("ok")

    def leave(self):
        if self.who is not self.db:  # nobody in particular cannot leave
            self.who.close()
        print("ok")

    def define(self, name):
        print(f"number {self.who.define_operation(name)}\nok")

    def register(self, target, operation, *words):
        scope, mode, values, history, retention = [None if word == "-" else word for word in (*words, *"-----")][:5]
        new = self.who.register(
            target,
            operation,
            scope=scope,
            mode=mode,
            values=values,
            history=None if history is None else history == "yes",
            retention=None if retention is None else timedelta(microseconds=int(retention)),
        )
        print("yes" if new else "no")

    def unregister(self, target, operation):
        print("yes" if self.who.unregister(target, operation) else "no")

    def registered(self, target, operation):
        print("yes" if self.who.is_registered(target, operation) else "no")

    def registrations(self):
        registrations(self.who.registrations())
        print("ok")

    def add(self, target, operation, micros, value):
        time = None if micros == "-" else int(micros)
        print(f"seqno {self.who.log_add(target, operation, value.encode(), time=time)}\nok")

    def all(self, target, operation):
        events(self.who.query_all(target, operation))

    def latest(self, target, operation):
        found = self.who.query_latest(target, operation)
        if found is None:
            print("none")
        else:
            events([found])

    @staticmethod
    def _span(first, last):
        return {"start": None if first == "-" else int(first), "end": None if last == "-" else int(last)}

    def span(self, target, operation, first, last):
        events(self.who.log_query(target, operation, **self._span(first, last)))

    def forget(self, target, operation, first, last):
        print(f"deleted {self.who.log_delete(target, operation, **self._span(first, last))}\nok")

    def pages(self, target, operation, client, limit):
        client = None if client == "-" else client
        events(self.who.query(target, operation, below=True, client=client, page=int(limit)))

    def provenance(self, key):
        known = self.who.provenance(key.encode(), self.family_)
        registrations(known.watched_by)
        events(known.events)

    def explain(self, key):
        known = self.who.explain(key.encode(), self.family_)
        value = "none" if known.value is None else known.value.hex()
        seal = "none" if known.seal is None else known.seal.hex()
        seqno = "" if known.seqno is None else f" seqno {known.seqno}"
        writer = known.writer or ""
        print(f"explained {known.target} {known.verdict} value={value} writer={writer} lies={known.lies} seal={seal}{seqno}")
        events(known.events)

    def reopen(self):
        self.db.close()
        print("ok")
        self.db = waxseal.open(self.path)
        print("ok")
        self.take()

    def close(self):
        self.db.close()
        print("ok")


def main():
    print(f"{waxseal.__version__}, backend {waxseal.backend}", file=sys.stderr)
    caller = Caller(sys.argv[1])
    for line in sys.stdin:
        print(f"> {line.rstrip()}")
        verb, *words = line.split()
        try:
            getattr(caller, verb)(*words)
        except waxseal.Error as error:
            print(f"status {error.code}")


main()
