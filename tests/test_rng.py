"""The random stream: uniform, independent between streams, the same everywhere, small integers."""

import numpy as np
import pytest

from edgeforest import Rng


def chi_square(counts):
    """How many standard deviations the counts are off from equal ones."""
    expected = sum(counts) / len(counts)
    statistic = sum((c - expected) ** 2 / expected for c in counts)
    freedom = len(counts) - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 32768, 65537])
def test_every_value_is_as_likely(n):
    rng = Rng(n)
    values = np.array([rng.below(n) for _ in range(60_000)])
    assert values.min() >= 0
    assert values.max() < n
    counts = np.bincount(values * min(n, 256) // n)
    if n in (2, 10) or n % 256 == 0 or n < 256:
        assert abs(chi_square(counts)) < 5
    assert values.mean() == pytest.approx((n - 1) / 2, abs=5 * n / np.sqrt(12 * 60_000))


def test_pairs_and_triples_fill_the_square_and_the_cube():
    rng = Rng(5)
    values = np.array([rng.next() for _ in range(150_000)])
    for shift in (26, 12, 0):  # high, middle and low bits
        digits = (values >> shift) & 15
        pairs = digits[:-1] * 16 + digits[1:]
        assert abs(chi_square(np.bincount(pairs, minlength=256))) < 5
        triples = (digits[:-2] & 7) * 64 + (digits[1:-1] & 7) * 8 + (digits[2:] & 7)
        assert abs(chi_square(np.bincount(triples, minlength=512))) < 5


def test_streams_and_neighbouring_seeds_have_nothing_in_common():
    heads = []
    for seed in range(20):
        for stream in range(20):
            rng = Rng(seed, stream)
            heads.append([rng.unit() for _ in range(200)])
    correlations = np.corrcoef(np.array(heads))
    off = correlations[~np.eye(len(heads), dtype=bool)]
    assert abs(off).max() < 0.4  # 5.6 standard deviations
    assert off.std() == pytest.approx(1 / np.sqrt(200), rel=0.05)
    first = np.array(heads)[:, 0]
    assert len(set(first.tolist())) == 400


def test_nothing_grows_beyond_30_bits():
    rng = Rng(2**30 - 1, 2**30 - 1)
    for _ in range(10_000):
        assert 0 <= rng.next() < 2**30
        assert 0 < rng.z < 2**30
        assert 0 < rng.w < 2**30


def test_fill_is_below_in_a_loop():
    for n in (1, 7, 20_000, 2**30 - 1, 2**29 + 12345):
        one, many = Rng(3), Rng(3)
        values = [0] * 500
        many.fill(values, n)
        assert values == [one.below(n) for _ in range(500)]
        assert (one.z, one.w) == (many.z, many.w)


def test_every_order_is_as_likely():
    rng = Rng(11)
    seen = {}
    for _ in range(24_000):
        values = [0, 1, 2, 3]
        rng.shuffle(values, 4)
        seen[tuple(values)] = seen.get(tuple(values), 0) + 1
    assert len(seen) == 24
    assert abs(chi_square(list(seen.values()))) < 5
