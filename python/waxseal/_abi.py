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


class waxseal_slice_t(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("len", C.c_size_t),
    ]


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


#: Result and parameters of each function.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
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
    "waxseal_iter_first": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_last": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_seek": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_seek_for_prev": (C.c_int32, [C.c_void_p, C.c_char_p, C.c_size_t, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_next": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_prev": (C.c_int32, [C.c_void_p, C.POINTER(waxseal_row_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_next_rows": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(waxseal_rows_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_prev_rows": (C.c_int32, [C.c_void_p, C.c_size_t, C.c_size_t, C.POINTER(waxseal_rows_t), C.POINTER(C.c_void_p)]),
    "waxseal_iter_valid": (C.c_bool, [C.c_void_p]),
    "waxseal_iter_key": (waxseal_slice_t, [C.c_void_p]),
    "waxseal_iter_value": (waxseal_slice_t, [C.c_void_p]),
    "waxseal_iter_destroy": (C.c_int32, [C.c_void_p]),
}
