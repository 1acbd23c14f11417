"""The generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) in Python integers, and the random words
of a draw."""

LOW = 2**32 - 1


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & LOW, first >> 32 ^ c[3] ^ k[1], first & LOW]
        k = [(k[0] + 0x9E3779B9) & LOW, (k[1] + 0xBB67AE85) & LOW]
    return c


def word_of_attempt(seed, offset, index, attempt):
    """Returns the random word of a draw, with purpose 0. The number of the attempt is stored in the bits
    above the 8 bits of the purpose."""
    out = philox([offset & LOW, offset >> 32, attempt << 8, index], [seed & LOW, seed >> 32])
    return out[0] | out[1] << 32


# Random123's known answers.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([LOW] * 4, [LOW] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
