"""What waxseal.h declares, as ctypes sees it. Written by declare.py: change the header, not this."""

from __future__ import annotations

import ctypes as C
from typing import Any, Dict, List, Tuple

WAXSEAL_OK = 0
WAXSEAL_NOT_FOUND = 1
WAXSEAL_TOO_SMALL = 2
WAXSEAL_CORRUPTION = -1
WAXSEAL_IO = -2
WAXSEAL_LOCKED = -3
WAXSEAL_INVALID = -4
WAXSEAL_CONFLICT = -5
WAXSEAL_READ_ONLY = -6
WAXSEAL_HALTED = -7
WAXSEAL_FORMAT_TOO_NEW = -8
WAXSEAL_CLOSED = -9
WAXSEAL_BUSY = -10
WAXSEAL_OUT_OF_MEMORY = -11
WAXSEAL_CALLBACK = -12
WAXSEAL_INTERNAL = -13
WAXSEAL_VERDICT_NONE = 0
WAXSEAL_VERDICT_STRUCTURAL = 1
WAXSEAL_VERDICT_CHECKSUM = 2
WAXSEAL_VERDICT_MISSING = 3
WAXSEAL_VERDICT_MISPLACED = 4
WAXSEAL_VERDICT_SEAL = 5
WAXSEAL_VERDICT_LEDGER = 6
WAXSEAL_VERDICT_OTHER = 7
WAXSEAL_ABI_VERSION = 1
WAXSEAL_COMPARE_FAILED = -0x80000000
WAXSEAL_DURABILITY_DEFAULT = 0
WAXSEAL_DURABILITY_BUFFERED = 1
WAXSEAL_DURABILITY_OS = 2
WAXSEAL_DURABILITY_SYNC = 3
WAXSEAL_COMPRESSION_NONE = 0
WAXSEAL_COMPRESSION_LZ4 = 1
WAXSEAL_VERIFY_NEVER = 0
WAXSEAL_VERIFY_ON_FILL = 1
WAXSEAL_VERIFY_SAMPLED = 2
WAXSEAL_VERIFY_ALWAYS = 3
WAXSEAL_UNBOUNDED = 0
WAXSEAL_INCLUDED = 1
WAXSEAL_EXCLUDED = 2
WAXSEAL_CHECKED_NOT = 0
WAXSEAL_CHECKED_ITSELF = 1
WAXSEAL_CHECKED_SEALED = 2
WAXSEAL_EVENT_RECOVERED = 0
WAXSEAL_EVENT_FLUSHED = 1
WAXSEAL_EVENT_COMPACTED = 2
WAXSEAL_EVENT_CORRUPTION = 3
WAXSEAL_EVENT_HEALED = 4
WAXSEAL_EVENT_BARRED = 5
WAXSEAL_EVENT_FENCED = 6
WAXSEAL_EVENT_LIFTED = 7
WAXSEAL_EVENT_BACKGROUND_ERROR = 8
WAXSEAL_EVENT_STALLED = 9
WAXSEAL_EVENT_OTHER = 10
WAXSEAL_PROVIDER_EXPIRY = 1
WAXSEAL_PROVIDER_PROVENANCE = 2
WAXSEAL_PROVIDER_ETL = 3
WAXSEAL_PROVIDER_LABELS = 4
WAXSEAL_KIND_PUT = 1
WAXSEAL_KIND_DELETE = 2
WAXSEAL_KIND_OTHER = 0
WAXSEAL_ENTRY_KEEP = 0
WAXSEAL_ENTRY_SET = 1
WAXSEAL_ENTRY_REMOVE = 2
WAXSEAL_DROP_SHADOWED = 0
WAXSEAL_DROP_TOMBSTONE = 1
WAXSEAL_DROP_RANGE_DELETE = 2
WAXSEAL_DROP_EXPIRED = 3
WAXSEAL_DROP_PURGED = 4
WAXSEAL_DECISION_QUARANTINE = 0
WAXSEAL_DECISION_FAIL = 1
WAXSEAL_DECISION_READ_ONLY = 2
WAXSEAL_OUTCOME_REPORTED = 0
WAXSEAL_OUTCOME_REPAIRED = 1
WAXSEAL_OUTCOME_FENCED = 2
WAXSEAL_OUTCOME_BARRED = 3
WAXSEAL_OUTCOME_ACCEPTED = 4
WAXSEAL_OUTCOME_OTHER = 5
WAXSEAL_RUNG_NONE = 0
WAXSEAL_RUNG_READ_AGAIN = 1
WAXSEAL_RUNG_MEMORY = 2
WAXSEAL_RUNG_CORRECTION = 3
WAXSEAL_RUNG_REBUILD = 4
WAXSEAL_RUNG_LOG = 5
WAXSEAL_RUNG_TRASH = 6
WAXSEAL_RUNG_SOURCE = 7
WAXSEAL_RUNG_HANDLER = 8
WAXSEAL_RUNG_OTHER = 9
WAXSEAL_POLICY_STRIP = 0
WAXSEAL_POLICY_COMPANION = 1
WAXSEAL_POLICY_PAPER_SAFE = 2
WAXSEAL_POLICY_PAPER_LITERAL = 3
WAXSEAL_FORM_PLAIN = 0
WAXSEAL_FORM_SEALED = 1
WAXSEAL_FORM_PAPER_SAFE = 2
WAXSEAL_FORM_PAPER_LITERAL = 3
WAXSEAL_MAY_REGISTER = 0
WAXSEAL_MAY_READ_LOG = 1
WAXSEAL_MAY_DELETE_LOG = 2
WAXSEAL_MAY_ADD_TO_LOG = 3
WAXSEAL_SUITED = -1
WAXSEAL_SCOPE_EXACT = 0
WAXSEAL_SCOPE_SUBTREE = 1
WAXSEAL_MODE_SYNC = 0
WAXSEAL_MODE_ASYNC = 1
WAXSEAL_MODE_DEFERRED = 2
WAXSEAL_VALUES_NONE = 0
WAXSEAL_VALUES_NEW = 1
WAXSEAL_VALUES_OLD_NEW = 2
WAXSEAL_VALUES_HASH = 3
WAXSEAL_FOREVER = 0xFFFFFFFFFFFFFFFF
WAXSEAL_FIELD_NUMBER = 0
WAXSEAL_FIELD_TEXT = 1
WAXSEAL_FIELD_BYTES = 2
WAXSEAL_FIELD_SETTING = 3
WAXSEAL_FIELD_ABSENT = 4
WAXSEAL_FIELD_VALUE = 5
WAXSEAL_FIELD_SEAL = 6
WAXSEAL_FIELD_FILE = 7
WAXSEAL_FIELD_SPAN = 8
WAXSEAL_FIELD_TOKENS = 9
WAXSEAL_FIELD_NUMBERS = 5
WAXSEAL_LIES_NOWHERE = 0
WAXSEAL_LIES_IN_MEMORY = 1
WAXSEAL_LIES_IN_TABLE = 2
WAXSEAL_TIME_FIRST = 0
WAXSEAL_TIME_LAST = 0xFFFFFFFFFFFFFFFF
WAXSEAL_COLUMN_KEY = 1
WAXSEAL_COLUMN_VALUE = 2
WAXSEAL_COLUMN_SEQNO = 4
WAXSEAL_COLUMN_SEAL = 8
WAXSEAL_COLUMN_ALL = 15

waxseal_compare_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p, C.c_size_t)
waxseal_destroy_fn = C.CFUNCTYPE(None, C.c_void_p)

class waxseal_slice_t(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("len", C.c_size_t),
    ]


class waxseal_engine_event_t(C.Structure):
    _fields_ = [
        ("kind", C.c_int32),
        ("verdict", C.c_int32),
        ("family", waxseal_slice_t),
        ("file", waxseal_slice_t),
        ("message", waxseal_slice_t),
        ("from", waxseal_slice_t),
        ("to", waxseal_slice_t),
        ("inputs", C.POINTER(C.c_uint64)),
        ("inputs_len", C.c_size_t),
        ("outputs", C.POINTER(C.c_uint64)),
        ("outputs_len", C.c_size_t),
        ("table", C.c_uint64),
        ("bytes", C.c_uint64),
        ("commits", C.c_uint64),
        ("offset", C.c_uint64),
        ("level", C.c_uint32),
        ("flag", C.c_bool),
    ]

waxseal_listener_fn = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(waxseal_engine_event_t))

class waxseal_record_t(C.Structure):
    _fields_ = [
        ("key", waxseal_slice_t),
        ("value", waxseal_slice_t),
        ("seqno", C.c_uint64),
        ("kind", C.c_int32),
    ]

waxseal_on_write_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_record_t), C.POINTER(waxseal_slice_t), C.c_void_p, C.c_size_t, C.POINTER(C.c_size_t), C.POINTER(C.c_void_p))
waxseal_on_build_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_record_t), C.POINTER(waxseal_slice_t), C.c_void_p, C.c_size_t, C.POINTER(C.c_size_t))
waxseal_on_drop_fn = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(waxseal_record_t), C.POINTER(waxseal_slice_t), C.c_int32)
waxseal_on_verify_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_record_t), C.POINTER(waxseal_slice_t))
waxseal_on_fold_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_slice_t), C.POINTER(C.c_int64))

class waxseal_progress_t(C.Structure):
    _fields_ = [
        ("done", C.c_uint64),
        ("total", C.c_uint64),
        ("found", C.c_uint64),
    ]

waxseal_progress_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_progress_t))
waxseal_found_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_int32, C.c_void_p, C.c_size_t, C.c_void_p, C.c_size_t)

class waxseal_seal_t(C.Structure):
    _fields_ = [
        ("bytes", C.c_uint8 * 8),
    ]


class waxseal_wanted_t(C.Structure):
    _fields_ = [
        ("family", waxseal_slice_t),
        ("low", waxseal_slice_t),
        ("high", waxseal_slice_t),
        ("seal", waxseal_seal_t),
        ("has_seal", C.c_bool),
    ]

waxseal_source_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_wanted_t), waxseal_found_fn, C.c_void_p, C.POINTER(C.c_void_p))

class waxseal_loss_t(C.Structure):
    _fields_ = [
        ("file", waxseal_slice_t),
        ("offset", C.c_uint64),
        ("family", waxseal_slice_t),
        ("from", waxseal_slice_t),
        ("from_seqno", C.c_uint64),
        ("to", waxseal_slice_t),
        ("to_seqno", C.c_uint64),
        ("verdict", C.c_int32),
    ]

waxseal_handler_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_loss_t))

class waxseal_asking_t(C.Structure):
    _fields_ = [
        ("what", C.c_int32),
        ("who", waxseal_slice_t),
        ("authenticated", waxseal_slice_t),
        ("target", waxseal_slice_t),
        ("operation", waxseal_slice_t),
    ]

waxseal_authorizer_fn = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(waxseal_asking_t))

class waxseal_bound_t(C.Structure):
    _fields_ = [
        ("kind", C.c_int32),
        ("key", C.c_void_p),
        ("key_len", C.c_size_t),
    ]


class waxseal_range_t(C.Structure):
    _fields_ = [
        ("lower", waxseal_bound_t),
        ("upper", waxseal_bound_t),
    ]


class waxseal_row_t(C.Structure):
    _fields_ = [
        ("key", waxseal_slice_t),
        ("value", waxseal_slice_t),
    ]


class waxseal_rows_t(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("offsets", C.POINTER(C.c_size_t)),
        ("count", C.c_size_t),
    ]


class waxseal_entry_t(C.Structure):
    _fields_ = [
        ("provider", C.c_uint16),
        ("version", C.c_uint8),
        ("checked", C.c_int32),
        ("bytes", waxseal_slice_t),
    ]


class waxseal_digest_t(C.Structure):
    _fields_ = [
        ("count", C.c_uint64),
        ("sum", C.c_uint64),
    ]


class waxseal_resume_t(C.Structure):
    _fields_ = [
        ("bytes", C.c_uint8 * 84),
    ]


class waxseal_counts_t(C.Structure):
    _fields_ = [
        ("records", C.c_uint64),
        ("validated", C.c_uint64),
        ("corrupted", C.c_uint64),
        ("missing", C.c_uint64),
        ("unverified", C.c_uint64),
        ("structural", C.c_uint64),
        ("repaired", C.c_uint64),
        ("lost", C.c_uint64),
        ("bytes", C.c_uint64),
        ("files", C.c_uint64),
        ("nanos", C.c_uint64),
        ("damage", C.c_size_t),
        ("is_clean", C.c_bool),
        ("cancelled", C.c_bool),
    ]


class waxseal_damage_t(C.Structure):
    _fields_ = [
        ("file", waxseal_slice_t),
        ("offset", C.c_uint64),
        ("family", waxseal_slice_t),
        ("from", waxseal_slice_t),
        ("to", waxseal_slice_t),
        ("message", waxseal_slice_t),
        ("verdict", C.c_int32),
        ("outcome", C.c_int32),
        ("rung", C.c_int32),
        ("steps", C.c_size_t),
        ("has_keys", C.c_bool),
    ]


class waxseal_exported_t(C.Structure):
    _fields_ = [
        ("records", C.c_uint64),
        ("rows", C.c_uint64),
        ("unsealed", C.c_uint64),
        ("sum", C.c_uint64),
        ("companion_bytes", C.c_uint64),
        ("files", C.c_size_t),
    ]


class waxseal_imported_t(C.Structure):
    _fields_ = [
        ("seqno", C.c_uint64),
        ("records", C.c_uint64),
        ("superseded", C.c_uint64),
        ("sealed", C.c_uint64),
        ("unsealed", C.c_uint64),
        ("bound", C.c_uint64),
        ("orphans", C.c_uint64),
        ("without_row", C.c_uint64),
        ("own_deletes", C.c_uint64),
    ]


class waxseal_registration_t(C.Structure):
    _fields_ = [
        ("target", waxseal_slice_t),
        ("operation", waxseal_slice_t),
        ("scope", C.c_int32),
        ("mode", C.c_int32),
        ("values", C.c_int32),
        ("history", C.c_bool),
        ("retention_micros", C.c_uint64),
    ]


class waxseal_event_t(C.Structure):
    _fields_ = [
        ("target", waxseal_slice_t),
        ("operation", waxseal_slice_t),
        ("client", waxseal_slice_t),
        ("micros", C.c_uint64),
        ("time", C.c_uint64),
        ("seqno", C.c_uint64),
        ("fields", C.c_size_t),
        ("back", C.c_size_t),
    ]


class waxseal_field_t(C.Structure):
    _fields_ = [
        ("number", C.c_uint64),
        ("name", waxseal_slice_t),
        ("kind", C.c_int32),
        ("bytes", waxseal_slice_t),
        ("more", waxseal_slice_t),
        ("numbers", C.c_uint64 * WAXSEAL_FIELD_NUMBERS),
    ]


class waxseal_explained_t(C.Structure):
    _fields_ = [
        ("target", waxseal_slice_t),
        ("verdict", waxseal_slice_t),
        ("value", waxseal_slice_t),
        ("writer", waxseal_slice_t),
        ("written_micros", C.c_uint64),
        ("seqno", C.c_uint64),
        ("verified_micros", C.c_uint64),
        ("file", waxseal_slice_t),
        ("uid", C.c_uint8 * 16),
        ("offset", C.c_uint64),
        ("level", C.c_uint32),
        ("lies", C.c_int32),
        ("seal", waxseal_seal_t),
        ("has_value", C.c_bool),
        ("has_version", C.c_bool),
        ("has_seal", C.c_bool),
    ]


#: Result and parameters of each function.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "waxseal_error_create": (C.c_void_p, [C.c_int32, C.c_char_p, C.c_size_t]),
    "waxseal_error_code": (C.c_int32, [C.c_void_p]),
    "waxseal_error_message": (C.c_char_p, [C.c_void_p]),
    "waxseal_error_file": (C.c_char_p, [C.c_void_p]),
    "waxseal_error_family": (C.c_char_p, [C.c_void_p]),
    "waxseal_error_offset": (C.c_uint64, [C.c_void_p]),
    "waxseal_error_verdict": (C.c_int32, [C.c_void_p]),
    "waxseal_error_key_range": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_slice_t), C.POINTER(waxseal_slice_t)]),
    "waxseal_error_sums": (C.c_int32, [C.c_void_p, C.POINTER(C.c_uint64), C.POINTER(C.c_uint64)]),
    "waxseal_error_is_out_of_space": (C.c_bool, [C.c_void_p]),
    "waxseal_error_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_live_handles": (C.c_size_t, []),
    "waxseal_abi_version": (C.c_uint32, []),
    "waxseal_version": (C.c_char_p, []),
    "waxseal_bytes_slice": (waxseal_slice_t, [C.c_void_p]),
    "waxseal_bytes_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_options_add_comparator": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, waxseal_compare_fn, C.c_bool, C.c_void_p, waxseal_destroy_fn, C.POINTER(C.c_void_p)]),
    "waxseal_family_options_set_comparator": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, waxseal_compare_fn, C.c_bool, C.c_void_p, waxseal_destroy_fn, C.POINTER(C.c_void_p)]),
    "waxseal_options_add_family": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_family_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_options_set_block_bytes": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_family_options_set_restart_interval": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_family_options_set_filter_bits": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_family_options_set_compression": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_family_options_set_table_bytes": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_family_options_set_level_base_bytes": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_family_options_set_verify_reads": (C.c_int32, [C.c_void_p, C.c_int32, C.c_uint32]),
    "waxseal_family_options_set_verify_scans": (C.c_int32, [C.c_void_p, C.c_int32, C.c_uint32]),
    "waxseal_family_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_options_set_cache_bytes": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_options_set_memtable_bytes": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_options_set_memory_bytes": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_options_set_block_bytes": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_options_set_compression": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_options_set_durability": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_options_set_background_threads": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_options_set_create_if_missing": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_options_set_wal_mapped": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_options_set_plain": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_options_set_registry": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_options_set_accept_loss": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_options_set_verify_reads": (C.c_int32, [C.c_void_p, C.c_int32, C.c_uint32]),
    "waxseal_options_set_verify_scans": (C.c_int32, [C.c_void_p, C.c_int32, C.c_uint32]),
    "waxseal_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_write_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_write_options_set_durability": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_write_options_add_label": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_write_options_set_insert": (C.c_int32, [C.c_void_p]),
    "waxseal_write_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_open": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_open_read_only": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_open_memory": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_close": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_destroy_store": (C.c_int32, [C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_sync": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_flush": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_settle": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_checkpoint": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_refresh": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_is_read_only": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_metrics_text": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_open": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_create": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_drop": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_family_names": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_name": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_family_with_verify": (C.c_int32, [C.c_void_p, C.c_int32, C.c_uint32, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_compact": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_approximate_size": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_range_t), C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_family_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_snapshot_create": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_snapshot_create_durable": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_snapshot_seqno": (C.c_int32, [C.c_void_p, C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_snapshot_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_put": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_put_with": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_delete": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_delete_with": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_batch_create": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_batch_put": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_batch_insert": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_batch_delete": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_batch_commit": (C.c_int32, [C.c_void_p, C.c_int32, C.POINTER(C.c_void_p)]),
    "waxseal_batch_clear": (C.c_int32, [C.c_void_p]),
    "waxseal_batch_count": (C.c_size_t, [C.c_void_p]),
    "waxseal_batch_bytes": (C.c_size_t, [C.c_void_p]),
    "waxseal_batch_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_get": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_get_into": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_void_p, C.c_size_t, C.POINTER(C.c_size_t), C.POINTER(C.c_void_p)]),
    "waxseal_contains": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_multi_get": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(waxseal_slice_t), C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_values_count": (C.c_size_t, [C.c_void_p]),
    "waxseal_values_at": (C.c_int32, [C.c_void_p, C.c_size_t, C.POINTER(waxseal_slice_t)]),
    "waxseal_values_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_iter_create": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(waxseal_range_t), C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_iter_create_prefix": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_iter_first": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_last": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_seek": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_seek_for_prev": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_next": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_prev": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_next_rows": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(waxseal_rows_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_set_keys_only": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_iter_prev_rows": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(waxseal_rows_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_valid": (C.c_bool, [C.c_void_p]),
    "waxseal_iter_key": (waxseal_slice_t, [C.c_void_p]),
    "waxseal_iter_value": (waxseal_slice_t, [C.c_void_p]),
    "waxseal_iter_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_seal_of": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(waxseal_seal_t), C.POINTER(C.c_void_p)]),
    "waxseal_put_sealed": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, waxseal_seal_t, C.POINTER(C.c_void_p)]),
    "waxseal_batch_put_sealed": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, waxseal_seal_t, C.POINTER(C.c_void_p)]),
    "waxseal_get_sealed": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(waxseal_seal_t), C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_write_options_add_entry": (C.c_int32, [C.c_void_p, C.c_uint16, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_write_options_set_expiry": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_batch_put_with": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(waxseal_entry_t), C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_get_meta": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_uint16, C.POINTER(C.c_void_p), C.c_void_p, C.POINTER(C.c_int32), C.POINTER(C.c_void_p)]),
    "waxseal_meta_iter_create": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_range_t), C.c_uint16, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_meta_iter_next": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_slice_t), C.POINTER(waxseal_entry_t), C.POINTER(C.c_void_p)]),
    "waxseal_meta_iter_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_options_set_listener": (C.c_int32, [C.c_void_p, waxseal_listener_fn, C.c_void_p, waxseal_destroy_fn]),
    "waxseal_provider_create": (C.c_int32, [C.c_uint16, C.c_char_p, C.c_size_t, C.c_void_p, waxseal_destroy_fn, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_provider_set_version": (C.c_int32, [C.c_void_p, C.c_uint8]),
    "waxseal_provider_set_local": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_provider_set_max_len": (C.c_int32, [C.c_void_p, C.c_size_t]),
    "waxseal_provider_set_sealed": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_provider_set_dropped_if_unknown": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_provider_set_on_write": (C.c_int32, [C.c_void_p, waxseal_on_write_fn, C.c_bool]),
    "waxseal_provider_set_on_build": (C.c_int32, [C.c_void_p, waxseal_on_build_fn]),
    "waxseal_provider_set_on_drop": (C.c_int32, [C.c_void_p, waxseal_on_drop_fn]),
    "waxseal_provider_set_on_verify": (C.c_int32, [C.c_void_p, waxseal_on_verify_fn]),
    "waxseal_provider_set_on_fold": (C.c_int32, [C.c_void_p, waxseal_on_fold_fn]),
    "waxseal_provider_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_options_add_provider": (C.c_int32, [C.c_void_p, C.c_void_p]),
    "waxseal_verify": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_verify_closed": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_scrub": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_repair": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_salvage": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_digest": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(waxseal_range_t), C.POINTER(waxseal_digest_t), C.POINTER(C.c_void_p)]),
    "waxseal_care_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_care_options_add_family": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_care_options_set_progress": (C.c_int32, [C.c_void_p, waxseal_progress_fn, C.c_void_p]),
    "waxseal_care_options_set_bytes_per_second": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_care_options_set_most_bytes": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_care_options_set_resume": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_resume_t)]),
    "waxseal_care_options_set_repair": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_care_options_set_accept_loss": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_care_options_set_source": (C.c_int32, [C.c_void_p, waxseal_source_fn, C.c_void_p]),
    "waxseal_care_options_set_handler": (C.c_int32, [C.c_void_p, waxseal_handler_fn, C.c_void_p]),
    "waxseal_care_options_set_max_retries": (C.c_int32, [C.c_void_p, C.c_uint32]),
    "waxseal_care_options_set_trash": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_care_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_report_counts": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_counts_t)]),
    "waxseal_report_damage": (C.c_int32, [C.c_void_p, C.c_size_t, C.POINTER(waxseal_damage_t)]),
    "waxseal_report_step": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(C.c_int32), C.POINTER(C.c_bool)]),
    "waxseal_report_resume": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_resume_t)]),
    "waxseal_report_json": (C.c_char_p, [C.c_void_p]),
    "waxseal_report_text": (C.c_char_p, [C.c_void_p]),
    "waxseal_report_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_export_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_export_options_set_policy": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_export_options_allow": (C.c_int32, [C.c_void_p, C.c_uint16]),
    "waxseal_export_options_add_range": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_range_t)]),
    "waxseal_export_options_set_all_versions": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_export_options_set_seqno": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_export_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_export": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(waxseal_exported_t), C.POINTER(C.c_void_p)]),
    "waxseal_import": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(waxseal_imported_t), C.POINTER(C.c_void_p)]),
    "waxseal_import_tables": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_slice_t), C.c_size_t, C.c_int32, C.POINTER(waxseal_imported_t), C.POINTER(C.c_void_p)]),
    "waxseal_session_open": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_session_name": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_session_family_open": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_session_family_create": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_session_family_drop": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_session_batch_create": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_session_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_options_set_authorizer": (C.c_int32, [C.c_void_p, waxseal_authorizer_fn, C.c_void_p, waxseal_destroy_fn]),
    "waxseal_register_options_create": (C.c_int32, [C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_register_options_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_register_options_set_scope": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_register_options_set_mode": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_register_options_set_values": (C.c_int32, [C.c_void_p, C.c_int32]),
    "waxseal_register_options_set_retention": (C.c_int32, [C.c_void_p, C.c_uint64]),
    "waxseal_register_options_set_history": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_register": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.c_void_p, C.POINTER(C.c_bool), C.POINTER(C.c_void_p)]),
    "waxseal_unregister": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_bool), C.POINTER(C.c_void_p)]),
    "waxseal_is_registered": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_bool), C.POINTER(C.c_void_p)]),
    "waxseal_define_operation": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_uint16), C.POINTER(C.c_void_p)]),
    "waxseal_registrations": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_registrations_count": (C.c_size_t, [C.c_void_p]),
    "waxseal_registrations_get": (C.c_int32, [C.c_void_p, C.c_size_t, C.POINTER(waxseal_registration_t)]),
    "waxseal_registrations_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_events_count": (C.c_size_t, [C.c_void_p]),
    "waxseal_events_get": (C.c_int32, [C.c_void_p, C.c_size_t, C.POINTER(waxseal_event_t)]),
    "waxseal_events_field": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(waxseal_field_t)]),
    "waxseal_events_next": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_slice_t)]),
    "waxseal_events_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_provenance": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_lineage": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_explain": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_explanation_get": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_explained_t)]),
    "waxseal_explanation_events": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_explanation_lineage": (C.c_int32, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "waxseal_explanation_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_query_all": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_query_latest": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_log_add": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.c_uint64, C.c_char_p, C.c_size_t, C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_log_query": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.c_uint64, C.c_uint64, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_log_delete": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.c_uint64, C.c_uint64, C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_query_create": (C.c_int32, [C.c_char_p, C.c_size_t, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_query_set_below": (C.c_int32, [C.c_void_p, C.c_bool]),
    "waxseal_query_set_span": (C.c_int32, [C.c_void_p, C.c_uint64, C.c_uint64]),
    "waxseal_query_set_client": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_query_set_page": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_size_t, C.POINTER(C.c_void_p)]),
    "waxseal_query_run": (C.c_int32, [C.c_void_p, C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_query_delete": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(C.c_uint64), C.POINTER(C.c_void_p)]),
    "waxseal_query_destroy": (C.c_int32, [C.c_void_p]),
    "waxseal_query_range": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(waxseal_range_t), C.c_char_p, C.c_size_t, C.c_size_t, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)]),
    "waxseal_scan_arrow": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(waxseal_range_t), C.c_uint32, C.c_size_t, C.c_size_t, C.c_void_p, C.POINTER(C.c_void_p)]),
}
