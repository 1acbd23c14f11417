"""Tests accept_chain and verify_tree. The tokens must equal those that `sample` draws, or have the
target's distribution."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fairdraw

VOCAB = 40
DYADIC = float(np.float32(1 / math.log(2)))  # makes the weights of integer logits powers of two
FILTERS = {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.01}


def logits_of(number, *shape):
    return np.random.default_rng(number).standard_normal((*shape, VOCAB), np.float32) * 3


def drawn(row, seed, offset, **filters):
    """Returns the token that `sample` draws from one row."""
    seeds = np.array([seed, seed], np.uint64)  # an array of seeds, so that the index is 0
    return int(fairdraw.sample(np.stack([row, row]), **filters, seed=seeds, offset=offset)[0])


def chain_by_hand(rows, draft, seed, offset, **filters):
    """Returns the tokens that the target draws, up to the first token that differs from the draft.
    The draft's distribution is unknown."""
    tokens = []
    for i, row in enumerate(rows):
        tokens.append(drawn(row, seed, offset + i, **filters))
        if i == len(draft) or tokens[i] != draft[i]:
            break
    return tokens


def likely_drafts(logits, seeds, offset, standing, **filters):
    """Returns drafts whose first `standing` tokens are those that the target draws, and whose next
    token is another."""
    batch, rows, _ = logits.shape
    draft = np.empty((batch, rows - 1), np.int64)
    for b in range(batch):
        for i in range(rows - 1):
            token = drawn(logits[b, i], seeds[b], offset + i, **filters)
            draft[b, i] = token if i < standing[b] else (token + 1) % VOCAB
    return draft


def expect_chains(found, expected, width):
    padded = [tokens + [-1] * (width - len(tokens)) for tokens in expected]
    assert found.tokens.tolist() == padded
    assert found.accepted.tolist() == [len(tokens) - 1 for tokens in expected]
    assert found.statuses.tolist() == [0] * len(expected)


def test_without_a_law_the_tokens_are_those_of_sample():
    seeds = np.array([5, 2**64 - 1, 9, 0], np.uint64)
    logits = logits_of(1, 4, 4)
    draft = likely_drafts(logits, seeds, 7, [0, 1, 2, 3], **FILTERS)
    found = fairdraw.accept_chain(logits, draft, **FILTERS, seed=seeds, offset=7)
    expected = [chain_by_hand(logits[b], draft[b], seeds[b], 7, **FILTERS) for b in range(4)]
    assert [len(tokens) for tokens in expected] == [1, 2, 3, 4]
    expect_chains(found, expected, 4)
    assert all(array.dtype == np.int32 for array in found)

    # Mixes greedy rows with random rows, for drafts with a known or an unknown distribution.
    temperature = np.array([0, 0.8, 0, 0.8])
    mixed = {**FILTERS, "temperature": temperature}
    found = fairdraw.accept_chain(logits, draft, **mixed, seed=seeds, offset=7)
    for b in range(4):
        alone = {**FILTERS, "temperature": float(temperature[b])}
        tokens = chain_by_hand(logits[b], draft[b], seeds[b], 7, **alone)
        assert found.tokens[b, : len(tokens)].tolist() == tokens


def test_packed_rows_and_lengths_are_the_same_requests():
    seeds = np.arange(3, dtype=np.uint64)
    logits = logits_of(2, 3, 5)
    draft = likely_drafts(logits, seeds, 0, [4, 1, 3])
    lengths = [2, 4, 0]
    expected = [
        chain_by_hand(logits[b, : n + 1], draft[b, :n], seeds[b], 0) for b, n in enumerate(lengths)
    ]
    found = fairdraw.accept_chain(logits, draft, draft_lengths=lengths, seed=seeds)
    expect_chains(found, expected, 5)
    begins = np.cumsum([0] + [n + 1 for n in lengths])
    rows = np.concatenate([logits[b, : n + 1] for b, n in enumerate(lengths)])
    packed = np.concatenate([draft[b, :n] for b, n in enumerate(lengths)])
    found = fairdraw.accept_chain(rows, packed, row_begins=begins, seed=seeds)
    expect_chains(found, expected, 5)
    wider = fairdraw.accept_chain(rows, packed, row_begins=begins, max_draft=6, seed=seeds)
    expect_chains(wider, expected, 7)


def chain_law(target, draft):
    """Returns the probability P(draft x, accepted, token) by Leviathan's rule, in fractions."""
    left = [max(p - q, Fraction(0)) for p, q in zip(target, draft, strict=True)]
    law = {}
    for x, q in enumerate(draft):
        if q == 0:
            continue
        stands = min(Fraction(1), target[x] / q)
        law[x, True, x] = q * stands
        for token, mass in enumerate(left):
            if mass and stands < 1:
                law[x, False, token] = q * (1 - stands) * mass / sum(left)
    return law


def powers(exponents):
    total = sum(Fraction(1, 2**e) for e in exponents)
    return [Fraction(1, 2**e) / total for e in exponents]


def test_with_a_law_every_outcome_has_its_probability():
    """Compares the frequencies of all outcomes (draft, accepted, token) of two positions with
    probabilities in fractions.

    By Hoeffding's inequality, the frequency of an outcome among n draws is off by more than
    sqrt(ln(2 / a) / (2 n)) with probability below a. The test of all outcomes together may fail by
    chance with probability 1e-9.
    """
    requests = 60000
    # Exponents of probabilities 2^-e, which the draw represents exactly.
    target = [[1, 2, 3, 3], [3, 1, 2, 3]]
    draft = [[3, 2, 1, 3], [2, 2, 2, 2]]
    random = np.random.default_rng(1)
    ids = np.stack([random.choice(4, requests, p=[float(p) for p in powers(e)]) for e in draft], 1)
    rows = -np.array([*target, [2, 2, 2, 2]], np.float32)
    logits = np.broadcast_to(rows, (requests, 3, 4)).copy()
    probs = np.broadcast_to(2.0 ** -np.array(draft, np.float32), (requests, 2, 4)).copy()
    seeds = np.arange(requests, dtype=np.uint64)
    arguments = {"temperature": DYADIC, "seed": seeds, "offset": 3}
    found = fairdraw.accept_chain(logits, ids, draft_probs=probs, **arguments)
    assert (found.statuses == 0).all()

    reached = np.arange(requests)  # requests whose drafts have all been accepted so far
    for i in range(2):
        law = chain_law(powers(target[i]), powers(draft[i]))
        assert sum(law.values()) == 1
        # By Leviathan's theorem, the token's marginal distribution is the target's.
        for token, p in enumerate(powers(target[i])):
            assert sum(mass for (_, _, t), mass in law.items() if t == token) == p
        stands = found.accepted[reached] > i
        counts = {}
        for outcome in zip(ids[reached, i], stands, found.tokens[reached, i], strict=True):
            key = tuple(int(v) for v in outcome)
            counts[key] = counts.get(key, 0) + 1
        assert set(counts) == {tuple(int(v) for v in key) for key in law}
        bound = math.sqrt(math.log(2 * 24 / 1e-9) / (2 * len(reached)))  # at most 24 outcomes
        for outcome, mass in law.items():
            frequency = counts[tuple(int(v) for v in outcome)] / len(reached)
            assert abs(frequency - float(mass)) < bound
        reached = reached[stands]
    bonus = found.tokens[reached, 2]
    bound = math.sqrt(math.log(2 * 4 / 1e-9) / (2 * len(reached)))
    assert np.abs(np.bincount(bonus, minlength=4) / len(reached) - 0.25).max() < bound
    # The test has power, because the draft's tokens, taken unchanged, would fail the test.
    assert (
        max(abs(float(p - q)) for p, q in zip(powers(target[0]), powers(draft[0]), strict=True))
        > 0.1
    )

    # Draft logits of the same distribution describe the same draft, whether filtered or not.
    draft_logits = np.broadcast_to(-np.array(draft, np.float32), (requests, 2, 4)).copy()
    same = fairdraw.accept_chain(
        logits,
        ids,
        draft_logits=draft_logits,
        draft_filters=fairdraw.LawFilters(DYADIC),
        **arguments,
    )
    assert np.array_equal(same.tokens, found.tokens)
    # A filter that drops the drafted token makes the draft impossible.
    top = fairdraw.LawFilters(DYADIC, top_k=1)
    other = fairdraw.accept_chain(
        logits[:4], np.tile([[0, 1]], (4, 1)), draft_logits=draft_logits[:4], draft_filters=top,
        temperature=DYADIC, seed=1,
    )  # fmt: skip
    assert other.statuses.tolist() == [19] * 4  # RowStatus::impossible_draft


def chains_drafted_by_seed(target, draft, requests):
    """Returns rows of logits with probabilities 2^-e for exponents of target and draft, two drafts
    per request that `sample` draws at offsets 3 and 4, and the requests' seeds."""
    logits = np.broadcast_to(-np.array([*target, [2] * 4], np.float32), (requests, 3, 4)).copy()
    drafts = np.broadcast_to(-np.array(draft, np.float32), (requests, 2, 4)).copy()
    seeds = np.arange(requests, dtype=np.uint64)
    ids = np.stack(
        [
            fairdraw.sample(drafts[:, i], DYADIC, seed=seeds, offset=3 + i, purpose="draft")
            for i in range(2)
        ],
        axis=1,
    )
    return logits, drafts, ids, seeds


def test_drafts_and_verification_by_the_same_seeds_have_the_targets_law():
    """Tests the first two tokens together, which have 16 outcomes, by Hoeffding's inequality with
    probability 1e-9.
    """
    requests = 60000
    target, draft = [[1, 2, 3, 3], [3, 1, 2, 3]], [[3, 2, 1, 3], [2, 2, 2, 2]]
    logits, drafts, ids, seeds = chains_drafted_by_seed(target, draft, requests)
    found = fairdraw.accept_chain(
        logits, ids, draft_logits=drafts, draft_filters=fairdraw.LawFilters(DYADIC),
        temperature=DYADIC, seed=seeds, offset=3,
    )  # fmt: skip
    # If the first draft was rejected, `sample` draws the second token in the next step, one offset
    # further.
    second = fairdraw.sample(logits[:, 1], DYADIC, seed=seeds, offset=4)
    second = np.where(found.accepted > 0, found.tokens[:, 1], second)
    counts = np.bincount(found.tokens[:, 0] * 4 + second, minlength=16) / requests
    bound = math.sqrt(math.log(2 * 16 / 1e-9) / (2 * requests))
    law = [float(a * b) for a in powers(target[0]) for b in powers(target[1])]
    assert np.abs(counts - law).max() < bound
    # The random bits for drawing drafts differ from the random bits for drawing tokens.
    drawn_ids = fairdraw.sample(drafts[:, 0], DYADIC, seed=seeds, offset=3)
    assert (drawn_ids != ids[:, 0]).any()
    with pytest.raises(ValueError, match="purpose is 'bonus'; allowed: 'draw', 'draft'"):
        fairdraw.sample(logits[:, 0], seed=1, purpose="bonus")


def random_tree(random, nodes):
    return np.array([random.integers(-1, j) for j in range(nodes)])


def tree_by_hand(rows, ids, parents, seed, offset, **filters):
    tokens, nodes, at = [], [], -1
    while True:
        token = drawn(rows[at + 1], seed, offset + len(tokens), **filters)
        tokens.append(token)
        at = next((j for j in range(len(ids)) if parents[j] == at and ids[j] == token), None)
        if at is None:
            return tokens, nodes
        nodes.append(at)


def test_trees_go_where_the_targets_tokens_are():
    random = np.random.default_rng(5)
    batch, nodes = 40, 12
    seeds = np.arange(batch, dtype=np.uint64)
    logits = logits_of(3, batch, nodes + 1)
    ids = np.empty((batch, nodes), np.int64)
    parents = np.stack([random_tree(random, nodes) for _ in range(batch)])
    # Half of the nodes are the token that the target draws after their parent.
    for b in range(batch):
        depth = [-1] * (nodes + 1)
        for j, parent in enumerate(parents[b]):
            depth[j + 1] = depth[parent + 1] + 1
            token = drawn(logits[b, parent + 1], seeds[b], 4 + depth[j + 1], **FILTERS)
            ids[b, j] = token if random.random() < 0.5 else random.integers(VOCAB)
    found = fairdraw.accept_tree(logits, ids, parents, **FILTERS, seed=seeds, offset=4)
    longest = 0
    for b in range(batch):
        tokens, path = tree_by_hand(logits[b], ids[b], parents[b], seeds[b], 4, **FILTERS)
        assert found.tokens[b].tolist() == tokens + [-1] * (nodes + 1 - len(tokens))
        assert found.nodes[b].tolist() == path + [-1] * (nodes - len(path))
        assert found.accepted[b] == len(path) and found.statuses[b] == 0
        longest = max(longest, len(path))
    assert longest >= 3  # the test needs some accepted paths that are long enough

    # The same trees are given as SGLang's links: first child, next sibling.
    child = np.full((batch, nodes + 1), -1)
    sibling = np.full((batch, nodes + 1), -1)
    for b in range(batch):
        last = {}
        for j, parent in enumerate(parents[b]):
            if parent in last:
                sibling[b, last[parent] + 1] = j + 1
            else:
                child[b, parent + 1] = j + 1
            last[parent] = j
    assert np.array_equal(fairdraw.parents_from_links(child, sibling), parents)
    child[0, 0] = -1  # the links reach no node now
    assert (fairdraw.parents_from_links(child, sibling)[0] < -1).any()


def test_a_tree_of_one_branch_with_a_law_is_a_chain():
    batch, n = 50, 3
    logits = logits_of(21, batch, n + 1)
    # Row j is for the children of node j; the last node has no children.
    drafts = logits_of(22, batch, n + 1)
    law = fairdraw.LawFilters(0.9, top_p=0.95)
    seeds = np.arange(batch, dtype=np.uint64)
    ids = np.stack(
        [
            fairdraw.sample(
                drafts[:, i], 0.9, top_p=0.95, seed=seeds, offset=5 + i, purpose="draft"
            )
            for i in range(n)
        ],
        axis=1,
    )
    parents = np.tile(np.arange(n) - 1, (batch, 1))
    for siblings in ("with_replacement", "without_replacement"):
        probs = np.exp(drafts)
        named = {**FILTERS, "seed": seeds, "offset": 5}
        by_logits = (
            fairdraw.accept_chain(
                logits, ids, draft_logits=drafts[:, :n].copy(), draft_filters=law, **named
            ),
            fairdraw.accept_tree(
                logits, ids, parents, draft_logits=drafts, draft_filters=law, siblings=siblings,
                **named,
            ),
        )  # fmt: skip
        by_probs = (
            fairdraw.accept_chain(logits, ids, draft_probs=probs[:, :n].copy(), **named),
            fairdraw.accept_tree(
                logits, ids, parents, draft_probs=probs, siblings=siblings, **named
            ),
        )
        for chain, tree in (by_logits, by_probs):
            assert np.array_equal(chain.tokens, tree.tokens)
            assert np.array_equal(chain.accepted, tree.accepted)
            assert (chain.statuses == 0).all() and (tree.statuses == 0).all()
        assert 0 < by_logits[0].accepted.sum() < batch * n
    # Packed rows of the same requests give the same results.
    packed = fairdraw.accept_tree(
        logits.reshape(-1, VOCAB), ids.reshape(-1), parents.reshape(-1),
        row_begins=np.arange(batch + 1) * (n + 1), draft_probs=probs.reshape(-1, VOCAB), **named,
    )  # fmt: skip
    assert np.array_equal(packed.tokens, by_probs[1].tokens)


def block_law(target, draft, ids):
    """Returns the probabilities that 0, 1 and 2 drafts of a chain are accepted by block
    verification, in fractions (Sun et al. 2024, Algorithm 2)."""
    share = min(Fraction(1), target[0][ids[0]] / draft[0][ids[0]])
    left = sum(max(share * p - q, 0) for p, q in zip(target[1], draft[1], strict=True))
    one = left / (left + 1 - share) if left else Fraction(0)
    both = min(Fraction(1), share * target[1][ids[1]] / draft[1][ids[1]])
    return [(1 - both) * (1 - one), (1 - both) * one, both]


def test_blocks_have_the_targets_law_and_accept_as_the_paper_says():
    """Tests the first two tokens together, which have 16 outcomes, and the number of accepted
    drafts of each chain, by Hoeffding's inequality with probability 1e-9 in total.
    """
    requests = 60000
    target, draft = [[1, 2, 3, 3], [3, 1, 2, 3]], [[3, 2, 1, 3], [2, 2, 2, 2]]
    logits, drafts, ids, seeds = chains_drafted_by_seed(target, draft, requests)
    call = {"draft_logits": drafts, "draft_filters": fairdraw.LawFilters(DYADIC)}
    call |= {"temperature": DYADIC, "seed": seeds, "offset": 3}
    found = fairdraw.accept_chain(logits, ids, **call, accept_rule="block")
    # All words of the block take part in its decision, so the next step starts after the block.
    second = fairdraw.sample(logits[:, 1], DYADIC, seed=seeds, offset=3 + 3)
    second = np.where(found.accepted > 0, found.tokens[:, 1], second)
    counts = np.bincount(found.tokens[:, 0] * 4 + second, minlength=16) / requests
    bound = math.sqrt(math.log(2 * (16 + 48) / 1e-9) / (2 * requests))
    p, q = [powers(e) for e in target], [powers(e) for e in draft]
    assert np.abs(counts - [float(a * b) for a in p[0] for b in p[1]]).max() < bound
    for x in range(4):
        for y in range(4):
            drawn = float(q[0][x] * q[1][y])
            here = found.accepted[(ids == (x, y)).all(axis=1)]
            frequency = np.bincount(here, minlength=3) / requests
            expected = [drawn * float(share) for share in block_law(p, q, (x, y))]
            assert np.abs(frequency - expected).max() < bound

    # Each request has its own rule, as a name or a number.
    token_wise = fairdraw.accept_chain(logits, ids, **call)
    assert (token_wise.tokens != found.tokens).any()
    rules = ["block" if b % 3 == 0 else "token_wise" for b in range(requests)]
    mixed = fairdraw.accept_chain(logits, ids, **call, accept_rule=rules)
    by_block = np.arange(requests) % 3 == 0
    expected = np.where(by_block[:, None], found.tokens, token_wise.tokens)
    assert np.array_equal(mixed.tokens, expected)
    numbers = by_block.astype(np.int32)
    mixed = fairdraw.accept_chain(logits, ids, **call, accept_rule=numbers)
    assert np.array_equal(mixed.tokens, expected)


@pytest.mark.parametrize("siblings", ["with_replacement", "without_replacement"])
def test_siblings_leave_the_law_of_the_target(siblings):
    """Tests three children of the root, which have 4 outcomes, by Hoeffding's inequality with
    probability 1e-9."""
    requests = 60000
    target, draft = [1, 2, 3, 3], [3, 2, 1, 3]
    logits = np.broadcast_to(-np.array(target, np.float32), (requests, 4, 4)).copy()
    probs = np.broadcast_to(2.0 ** -np.array(draft, np.float32), (requests, 4, 4)).copy()
    random = np.random.default_rng(3)
    law = [float(p) for p in powers(draft)]
    if siblings == "with_replacement":
        ids = random.choice(4, (requests, 3), p=law)
    else:  # exponential clocks, of which the first three to ring are the children
        ids = np.argsort(random.standard_exponential((requests, 4)) / law, axis=1)[:, :3]
    found = fairdraw.accept_tree(
        logits, ids, np.full((requests, 3), -1), max_depth=1, draft_probs=probs, siblings=siblings,
        temperature=DYADIC, seed=np.arange(requests, dtype=np.uint64),
    )  # fmt: skip
    assert (found.statuses == 0).all()
    # The first token, which is an accepted child or drawn from the residual, has the target's
    # distribution.
    counts = np.bincount(found.tokens[:, 0], minlength=4) / requests
    bound = math.sqrt(math.log(2 * 4 / 1e-9) / (2 * requests))
    assert np.abs(counts - [float(p) for p in powers(target)]).max() < bound
    assert set(np.unique(found.nodes)) == {-1, 0, 1, 2}
    # The test has power, because the first child, taken as the token, would fail the test.
    assert np.abs(np.bincount(ids[:, 0], minlength=4) / requests - counts).max() > bound


def test_a_sibling_cannot_come_twice_without_replacement():
    logits = np.zeros((1, 3, 4), np.float32)
    twice = {"draft_probs": np.full((1, 3, 4), 0.25, np.float32), "max_depth": 1, "seed": 1}
    alike = ([[2, 2]], [[-1, -1]])
    logits[0, 0, 2] = -np.inf  # both children are rejected, so that the rows of both are read
    with_it = fairdraw.accept_tree(logits, *alike, **twice)
    without = fairdraw.accept_tree(logits, *alike, siblings="without_replacement", **twice)
    assert with_it.statuses.tolist() == [0]
    assert without.statuses.tolist() == [19]  # RowStatus::impossible_draft


def processed(row, request, prefix):
    """Applies RequestProcessing to a row after the output `prefix`, in NumPy's float32."""
    row = row.copy()
    output = [*request.output, *prefix]
    seen = set(output) | (set(request.prompt) if request.repetition_of_prompt else set())
    for token in seen:
        penalty = np.float32(request.repetition_penalty)
        row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    for token in set(output):
        row[token] -= np.float32(request.frequency_penalty) * np.float32(output.count(token))
        row[token] -= np.float32(request.presence_penalty)
    for token, bias in request.bias.items():
        row[token] += np.float32(bias)
    banned = set(request.stop_ids) if len(output) < request.min_tokens else set()
    for *before, last in request.bad_words:
        if output[len(output) - len(before) :] == before:
            banned.add(last)
    if request.allowed_ids:
        banned |= set(range(VOCAB)) - set(request.allowed_ids)
    row[list(banned)] = -np.inf
    return row


def processing_cases():
    return [
        fairdraw.RequestProcessing(
            repetition_penalty=1.7, prompt=[1, 2, 3, 3], output=[4, 5, 4], frequency_penalty=0.4
        ),
        fairdraw.RequestProcessing(
            repetition_penalty=0.5, repetition_of_prompt=False, prompt=[7], presence_penalty=-1.5
        ),
        fairdraw.RequestProcessing(
            bias={3: 4.0, 9: -np.inf}, min_tokens=3, stop_ids=[3, 11], output=[6]
        ),
        fairdraw.RequestProcessing(bad_words=[[8], [6, 3], [6, 6, 2]], allowed_ids=range(20)),
        fairdraw.RequestProcessing(),
    ]


def test_processing_sees_the_growing_prefix():
    requests = processing_cases()
    batch = len(requests)
    random = np.random.default_rng(8)
    seeds = np.arange(batch, dtype=np.uint64)
    changed = 0
    for number in range(30):
        logits = logits_of(100 + number, batch, 4)
        logits[:, :, [2, 3, 4, 6, 8, 11]] += 3  # token ids that occur in the requests' parameters
        draft = random.choice([2, 3, 4, 6, 8, 11], (batch, 3))
        for b in range(batch):
            for i in range(3):
                if random.random() < 0.7:
                    row = processed(logits[b, i], requests[b], draft[b, :i].tolist())
                    draft[b, i] = drawn(row, seeds[b], i, top_p=0.9)
        found = fairdraw.accept_chain(logits, draft, processing=requests, top_p=0.9, seed=seeds)
        expected = []
        for b in range(batch):
            rows = [processed(logits[b, i], requests[b], draft[b, :i].tolist()) for i in range(4)]
            expected.append(chain_by_hand(rows, draft[b].tolist(), seeds[b], 0, top_p=0.9))
        expect_chains(found, expected, 4)
        plain = fairdraw.accept_chain(logits, draft, top_p=0.9, seed=seeds)
        changed += int((plain.tokens != found.tokens).any(axis=1).sum())
    assert changed > 30  # number of the 120 requests whose parameters are not neutral


def test_processing_of_trees_sees_the_path():
    requests = processing_cases()
    random = np.random.default_rng(9)
    batch, nodes = len(requests), 6
    seeds = np.arange(batch, dtype=np.uint64)
    for number in range(20):
        logits = logits_of(200 + number, batch, nodes + 1)
        logits[:, :, [2, 3, 4, 6, 8, 11]] += 3
        ids = random.choice([2, 3, 4, 6, 8, 11], (batch, nodes))
        parents = np.stack([random_tree(random, nodes) for _ in range(batch)])
        found = fairdraw.accept_tree(logits, ids, parents, processing=requests, seed=seeds)
        for b in range(batch):
            rows = []
            for j in range(-1, nodes):
                path, at = [], j
                while at >= 0:
                    path.insert(0, int(ids[b, at]))
                    at = parents[b, at]
                rows.append(processed(logits[b, j + 1], requests[b], path))
            tokens, _ = tree_by_hand(rows, ids[b], parents[b], seeds[b], 0)
            assert found.tokens[b, : len(tokens)].tolist() == tokens


def test_what_is_wrong_with_one_request_fails_it_alone():
    seeds = np.arange(8, dtype=np.uint64)
    logits = logits_of(4, 8, 3)
    good = likely_drafts(logits, seeds, 0, [2] * 8)
    draft, lengths, top_p = good.copy(), [2] * 8, np.ones(8)
    before = fairdraw.accept_chain(logits, draft, seed=seeds)
    logits[0, 0, 3] = math.nan
    logits[1, 1, 3] = math.inf
    draft[2, 1] = VOCAB
    draft[3, 1] = -(2**40)
    lengths[4] = 3
    lengths[5] = -1
    top_p[6] = 1.5
    found = fairdraw.accept_chain(logits, draft, draft_lengths=lengths, top_p=top_p, seed=seeds)
    # The statuses are nan_input, infinite_input, index_out_of_range twice, invalid_draft_length
    # twice, invalid_top_p
    assert found.statuses.tolist() == [2, 3, 10, 10, 18, 18, 8, 0]
    assert (found.tokens[:7] == -1).all() and (found.accepted[:7] == 0).all()
    assert found.tokens[7].tolist() == before.tokens[7].tolist()

    active = np.ones(8, bool)
    active[1] = False
    found = fairdraw.accept_chain(logits, good, active=active, seed=seeds)
    assert found.statuses.tolist() == [2, 1, 0, 0, 0, 0, 0, 0]
    allowed = np.full((8, 3, 2), 2**32 - 1, np.uint32)
    allowed[7] = 0
    found = fairdraw.accept_chain(logits, good, allowed=allowed, seed=seeds)
    assert found.statuses.tolist() == [2, 3, 0, 0, 0, 0, 0, 5]

    tree = np.array([[-1, 0]] * 8)
    tree[2] = [0, -1]  # a node before itself
    tree[3] = [-1, 2]
    found = fairdraw.accept_tree(logits, good, tree, max_depth=2, seed=seeds)
    assert found.statuses.tolist() == [2, 3, 20, 20, 0, 0, 0, 0]
    shallow = fairdraw.accept_tree(logits[4:], good[4:], tree[4:], max_depth=1, seed=seeds[4:])
    assert shallow.statuses.tolist() == [18] * 4 and shallow.tokens.shape == (4, 2)

    broken = [fairdraw.RequestProcessing() for _ in range(8)]
    broken[5] = fairdraw.RequestProcessing(repetition_penalty=0.0)
    broken[6] = fairdraw.RequestProcessing(presence_penalty=1.0, output=[VOCAB])
    found = fairdraw.accept_chain(logits, good, processing=broken, seed=seeds)
    assert found.statuses.tolist() == [2, 3, 0, 0, 0, 12, 11, 0]


def test_rows_that_belong_to_nobody():
    # The arguments have a begin beyond the rows, a decreasing begin, and a request without rows.
    logits = logits_of(6, 6)
    draft = likely_drafts(logits[None, :2], [0], 0, [1])[0]
    begins = np.array([0, 2, 2, 9])
    ids = np.concatenate([draft, [1, 1]])
    found = fairdraw.accept_chain(
        logits, ids, row_begins=begins, max_draft=2, seed=np.arange(3, dtype=np.uint64),
        processing=[fairdraw.RequestProcessing() for _ in range(3)],
    )  # fmt: skip
    assert found.statuses.tolist() == [0, 18, 18]
    assert found.accepted.tolist() == [1, 0, 0]


LOGITS, DRAFT = logits_of(1, 2, 3), np.zeros((2, 2), np.int32)


@pytest.mark.parametrize(
    "error, message, arguments",
    [
        (TypeError, "logits has 2 axes; 3 are needed", {"logits": LOGITS[0]}),
        (TypeError, "logits has 3 axes; 2 are needed", {"row_begins": [0, 3]}),
        (TypeError, "logits holds float64", {"logits": LOGITS.astype(np.float64)}),
        (ValueError, r"draft_token_ids has shape \[2, 3\]; \[2, 2\]", {"ids": np.zeros((2, 3), int)}),
        (TypeError, "draft_token_ids holds float64", {"ids": np.zeros((2, 2))}),
        (ValueError, r"draft_lengths has shape \[3\]; \[2\]", {"draft_lengths": [1, 1, 1]}),
        (ValueError, r"draft_probs has shape \[2, 40\]", {"draft_probs": LOGITS[:, 0]}),
        (ValueError, "both given", {"draft_probs": LOGITS, "draft_logits": LOGITS}),
        (ValueError, "without draft_logits", {"draft_filters": fairdraw.LawFilters()}),
        (ValueError, "top_p is 1.5; allowed: 0 to 1", {"top_p": 1.5}),
        (ValueError, "top_k is -2; allowed: >= -1", {"top_k": -2}),
        (ValueError, "temperature is -1; allowed: 0", {"temperature": -1.0}),
        (ValueError, "tie_rule is 'first'; allowed: 'keep_all'", {"tie_rule": "first"}),
        (ValueError, "filter_apply_order is 'x'", {"filter_apply_order": "x"}),
        (ValueError, "accept_rule is 'x'; allowed: 'token_wise', 'block'", {"accept_rule": "x"}),
        (ValueError, r"accept_rule\[1\] is 'x'", {"accept_rule": ["block", "x"]}),
        (ValueError, r"accept_rule\[0\] is 7; allowed: 0 to 1", {"accept_rule": [7, 0]}),
        (
            ValueError,
            r"accept_rule\[1\] is 7; allowed: 0 \(token_wise\) or 1 \(block\)",
            {"accept_rule": np.array([1, 7], np.int32)},
        ),
        (ValueError, "length of accept_rule is 3; allowed: 2", {"accept_rule": ["block"] * 3}),
        (ValueError, "length of target.seed is 3; allowed: 2", {"seed": np.arange(3)}),
        (ValueError, "offset: is given without a seed", {"seed": None, "offset": 1}),
        (ValueError, "max_draft is 3; allowed: 2", {"max_draft": 3}),
        (ValueError, "processing has 1 entries; 2", {"processing": [fairdraw.RequestProcessing()]}),
        (TypeError, "allowed: a NumPy array, .* not list", {"allowed": [[2**32 - 1] * 2] * 6}),
        (ValueError, "allowed: 1 words per row", {"allowed": np.zeros((2, 3, 1), np.uint32)}),
        (ValueError, "allowed.rows is 2; allowed: 6", {"allowed": np.zeros((2, 2), np.uint32)}),
        (ValueError, r"active has shape \[3\]", {"active": np.ones(3, bool)}),
        (TypeError, "active holds float64", {"active": np.ones(2)}),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_argument(error, message, arguments):
    arguments = {"logits": LOGITS, "ids": DRAFT, "seed": 1, **arguments}
    logits, ids = arguments.pop("logits"), arguments.pop("ids")
    with pytest.raises(error, match=message):
        fairdraw.accept_chain(logits, ids, **arguments)


def test_masks_of_packed_rows_have_two_axes():
    packed = {"logits": LOGITS[0], "draft_token_ids": DRAFT[0], "row_begins": [0, 3], "seed": 1}
    with pytest.raises(TypeError, match="allowed has 3 axes; 2 are needed"):
        fairdraw.accept_chain(**packed, allowed=np.zeros((1, 3, 2), np.uint32))


def test_what_trees_refuse():
    with pytest.raises(TypeError, match="allowed: a NumPy array, .* not list"):
        fairdraw.accept_tree(LOGITS, DRAFT, DRAFT - 1, allowed=[[0, 0]] * 6, seed=1)
    with pytest.raises(ValueError, match=r"parents has shape \[2\]; \[2, 2\] is needed"):
        fairdraw.accept_tree(LOGITS, DRAFT, [-1, 0], seed=1)
    with pytest.raises(ValueError, match="max_depth is -1; allowed: >= 0"):
        fairdraw.accept_tree(LOGITS, DRAFT, DRAFT - 1, max_depth=-1, seed=1)
    with pytest.raises(ValueError, match="siblings is 'alone'; allowed: 'with_replacement'"):
        fairdraw.accept_tree(LOGITS, DRAFT, DRAFT - 1, siblings="alone", seed=1)
    with pytest.raises(ValueError, match=r"draft_probs has shape \[2, 2, 40\]; \[2, 3, 40\]"):
        fairdraw.accept_tree(LOGITS, DRAFT, DRAFT - 1, draft_probs=LOGITS[:, :2], seed=1)
    with pytest.raises(ValueError, match="draft_filters: are given without draft_logits"):
        fairdraw.accept_tree(LOGITS, DRAFT, DRAFT - 1, draft_filters=fairdraw.LawFilters(), seed=1)
    with pytest.raises(TypeError, match="retrieve_next_token has 1 axes; 2 are needed"):
        fairdraw.parents_from_links(np.array([-1]), np.array([-1]))
    with pytest.raises(ValueError, match=r"retrieve_next_sibling has shape \[1, 2\]; \[1, 1\]"):
        fairdraw.parents_from_links(np.array([[-1]]), np.array([[-1, -1]]))


@pytest.mark.parametrize("name", ["chain", "tree", "chain_with_kept_sets", "tree_with_kept_sets"])
def test_the_names_that_engines_use_are_aliases(name):
    assert getattr(fairdraw, f"verify_{name}") is getattr(fairdraw, f"accept_{name}")


def test_torch_gives_tensors_and_the_same_tokens():
    torch = pytest.importorskip("torch")
    seeds = np.arange(2, dtype=np.uint64)
    draft = likely_drafts(LOGITS, seeds, 0, [1, 2])
    parents = np.array([[-1, 0], [-1, 0]])
    expected = fairdraw.accept_chain(LOGITS, draft, seed=seeds)
    logits, ids = torch.from_numpy(LOGITS), torch.from_numpy(draft)
    found = fairdraw.accept_chain(logits, ids, seed=torch.arange(2))
    tree = fairdraw.accept_tree(logits, ids, torch.from_numpy(parents), seed=torch.arange(2))
    for result in (found, tree):
        assert result.tokens.dtype == torch.int32
        assert result.tokens.tolist() == expected.tokens.tolist()
    half = logits.bfloat16()
    wide = fairdraw.accept_chain(half.float(), ids, seed=torch.arange(2))
    assert torch.equal(fairdraw.accept_chain(half, ids, seed=torch.arange(2)).tokens, wide.tokens)
    links = fairdraw.parents_from_links(torch.tensor([[1, -1]]), torch.tensor([[-1, -1]]))
    assert links.tolist() == [[-1]] and links.dtype == torch.int32
