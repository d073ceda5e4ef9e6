"""A server of moto, and the tool beside it: what the checks of remote URLs share."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import boto3

TOOL, SERVER = sys.argv[1:3]
BUCKET = "bucket"
ENV = dict(os.environ)


def start_server():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    ENV.update(keys, AWS_ENDPOINT_URL=url, AWS_ALLOW_HTTP="true", MOTO_S3_CUSTOM_ENDPOINTS=url)
    server = subprocess.Popen([SERVER, "-H", "127.0.0.1", "-p", str(port)], env=ENV,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test",
                          region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    return server, client


RUNNING, S3 = start_server()


def tool(*args, code=0):
    done = subprocess.run([TOOL, *map(str, args)], env=ENV, capture_output=True)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    assert done.returncode == code, f"{args}: exit code {done.returncode} instead of {code}: {out}{err}"
    return out + err


def parsed(*args, code=0):
    return json.loads(tool("--json", *args, code=code).splitlines()[0])


def objects(prefix):
    pages = S3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
    found = [entry for page in pages for entry in page.get("Contents", [])]
    return {entry["Key"].removeprefix(prefix + "/"): entry["Size"] for entry in found}


def killed(args, ready):
    """Runs the tool and kills it once `ready()`; returns False if it ended before."""
    running = subprocess.Popen([TOOL, *map(str, args)], env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None:
        if ready():
            running.send_signal(signal.SIGKILL)
            running.wait()
            return running.returncode == -signal.SIGKILL
        time.sleep(0.005)
    return False


def run(checks):
    """Runs each check in a directory of its own, prints one line a check, and ends the process: with 1 if one fails."""
    failed = False
    try:
        for check in checks:
            home = pathlib.Path(tempfile.mkdtemp(prefix="waxseal-remote-"))
            started = time.monotonic()
            try:
                check(home)
                print(f"ok      {check.__name__}  {time.monotonic() - started:.1f} s", flush=True)
            except AssertionError as error:
                failed = True
                print(f"FAILED  {check.__name__}: {error}", flush=True)
            finally:
                shutil.rmtree(home, ignore_errors=True)
    finally:
        RUNNING.terminate()
        RUNNING.wait()
    sys.exit(1 if failed else 0)
