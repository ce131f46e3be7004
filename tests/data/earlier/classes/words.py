"""A class whose module comes after those of Holdfast."""


class Late:
    limit = 2
