"""What a capsule's script ends with: the row by its constants, the engine's answer, what was expected."""


def main():
    kept, tokens = answer(LOGITS, TEMPERATURE, TOP_K, TOP_P, MIN_P, DRAWS)
    wrong = []
    if kept is not None and KEPT is not None:
        if missing := sorted(set(KEPT) - kept):
            wrong.append(f"the filters drop {missing[:8]}, which have to stay")
        if extra := sorted(kept - set(MAY_BE_KEPT)):
            wrong.append(f"the filters keep {extra[:8]}, which have to go")
        if not FEWEST <= len(kept) <= MOST:
            wrong.append(f"{len(kept)} tokens stay; expected: {FEWEST} to {MOST}")
    if kept is not None and (left := sorted({t for t in tokens if t >= 0} - kept)):
        wrong.append(f"{left[:8]} are drawn, which the filters of the same call dropped")
    if KEPT is not None and (outside := sorted({t for t in tokens if t >= 0} - set(MAY_BE_KEPT))):
        wrong.append(f"{outside[:8]} are drawn; expected: one of {MAY_BE_KEPT[:8]}")
    if MUST_FAIL and any(t >= 0 for t in tokens):
        wrong.append(f"a row without a distribution gives tokens {sorted(set(tokens))[:8]}")
    for token, (fewest, most) in COUNTS.items():
        if not fewest <= tokens.count(token) <= most:
            wrong.append(
                f"token {token} is drawn {tokens.count(token)} times in {DRAWS}; "
                f"expected: {fewest} to {most}"
            )
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
