"""A class whose module comes before those of Holdfast."""


class Early:
    limit = 1
