from deuz_compiler.records import reasons


def test_every_reason_is_listed_once_and_explained() -> None:
    constants = [
        value
        for name, value in vars(reasons).items()
        if name.isupper() and isinstance(value, str)
    ]

    assert sorted(constants) == sorted(reasons.REASONS)
    assert len(set(reasons.REASONS)) == len(reasons.REASONS)
    for reason in reasons.REASONS:
        assert f"`{reason}`" in str(reasons.__doc__)
