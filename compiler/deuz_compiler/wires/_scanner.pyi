Member = tuple[str, int, int]
Element = tuple[int, int, int]

def scan(
    body: bytes,
    at: int,
    origin: int,
    history: bytes,
    names: bytes,
    roles: bytes,
) -> tuple[tuple[Member, ...], int, int, tuple[Member, ...], list[Element]] | None: ...
