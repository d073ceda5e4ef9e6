"""The sums of docs/format.md, section 1, in plain Python: nothing to install, and nothing shared with the engine.

hash   XXH3-64 with seed 0, for every length
crc    CRC-32 as in zlib
mix    the bijection that marks, links and seeds are made with
"""

import struct
import zlib

M64 = (1 << 64) - 1
M32 = (1 << 32) - 1

P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

STRIPE = 64
BLOCK = 1024  # sixteen stripes, between two scramblings

LANES = struct.Struct("<8Q")


def u64(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def u32(data, at):
    return int.from_bytes(data[at : at + 4], "little")


# The keys of the sixteen stripes of a block, of the scrambling, and of the last stripe.
STRIPE_KEYS = [LANES.unpack_from(SECRET, 8 * stripe) for stripe in range(16)]
SCRAMBLE_KEYS = LANES.unpack_from(SECRET, 128)
LAST_KEYS = LANES.unpack_from(SECRET, 121)


def crc(seed, data):
    """CRC-32, continued from `seed`."""
    return zlib.crc32(data, seed) & M32


def mix(x):
    """The bijective finaliser of the format; mix(0) = 0."""
    x ^= x >> 27
    x = x * 0x3C79AC492BA7B653 & M64
    x ^= x >> 33
    x = x * 0x1C69B3F74AC4AE35 & M64
    return x ^ (x >> 27)


def block_seed(uid, offset, role):
    """What a block's CRC is continued from: it binds the block to its file, its place and its role."""
    low, high = u64(uid, 0), u64(uid, 8)
    return mix(low ^ mix(high ^ mix((offset << 8 | role) & M64))) & M32


def hash(data):  # noqa: A001, the page's own word
    """XXH3-64, seed 0."""
    n = len(data)
    if n <= 16:
        return hash_short(data, n)
    if n <= 128:
        return hash_medium(data, n)
    if n <= 240:
        return hash_wide(data, n)
    return hash_long(data, n)


def hash_short(data, n):
    if n > 8:
        low = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
        high = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche((n + swapped + high + fold(low, high)) & M64)
    if n >= 4:
        word = u32(data, n - 4) + (u32(data, 0) << 32)
        h = word ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * 0x9FB21C651E98DF25 & M64
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & M64
        return h ^ (h >> 28)
    if n > 0:
        word = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_64(word ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    return avalanche_64(u64(SECRET, 56) ^ u64(SECRET, 64))


def hash_medium(data, n):
    acc = n * P64_1
    pairs = (n - 1) // 32  # 0..3: how many pairs beside the outermost
    for i in range(pairs, -1, -1):
        acc += mix_16(data, 16 * i, 32 * i)
        acc += mix_16(data, n - 16 * (i + 1), 32 * i + 16)
    return avalanche(acc & M64)


def hash_wide(data, n):
    acc = n * P64_1
    for i in range(8):
        acc += mix_16(data, 16 * i, 16 * i)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix_16(data, 16 * i, 16 * (i - 8) + 3)
    acc += mix_16(data, n - 16, 136 - 17)
    return avalanche(acc & M64)


def hash_long(data, n):
    lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    blocks = (n - 1) // BLOCK
    for block in range(blocks):
        accumulate(lanes, data, block * BLOCK, 16)
        scramble(lanes)
    accumulate(lanes, data, blocks * BLOCK, (n - 1 - blocks * BLOCK) // STRIPE)
    accumulate_stripe(lanes, LANES.unpack_from(data, n - STRIPE), LAST_KEYS)
    result = n * P64_1
    for i in range(4):
        a = (lanes[2 * i] & M64) ^ u64(SECRET, 11 + 16 * i)
        b = (lanes[2 * i + 1] & M64) ^ u64(SECRET, 19 + 16 * i)
        result += fold(a, b)
    return avalanche(result & M64)


def accumulate(lanes, data, at, stripes):
    for stripe in range(stripes):
        accumulate_stripe(lanes, LANES.unpack_from(data, at + stripe * STRIPE), STRIPE_KEYS[stripe])


def accumulate_stripe(lanes, words, keys):
    """Lanes may grow beyond 64 bits here; they are cut where they are used."""
    for i in range(8):
        word = words[i]
        keyed = word ^ keys[i]
        lanes[i ^ 1] += word
        lanes[i] += (keyed & M32) * (keyed >> 32)


def scramble(lanes):
    for i in range(8):
        lane = lanes[i] & M64
        lanes[i] = (lane ^ (lane >> 47) ^ SCRAMBLE_KEYS[i]) * P32_1 & M64


def mix_16(data, at, secret_at):
    return fold(u64(data, at) ^ u64(SECRET, secret_at), u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & M64


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ (h >> 32)


def avalanche_64(h):
    h ^= h >> 33
    h = h * P64_2 & M64
    h ^= h >> 29
    h = h * P64_3 & M64
    return h ^ (h >> 32)
