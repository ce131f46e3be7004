"""Tables, columns and their values, of pandas, polars and pyarrow, and the types and random numbers of numpy.

They are written in C, so nothing of them can be read as attributes. Each is read by its package's own methods, as
columns, types, index and values; a class that a person derives from one of these is not, since its methods are code of
that person. How a table lies in memory (blocks, chunks) does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.tasks.source.values.type_parts import type_mro, type_qualname

Parts = Callable[[Any], Iterator[tuple[str, Any]]]
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a package raises for content that it cannot give as values of Python."""


class ColumnName(NamedTuple):
    """Stands for a column in the name of a part."""

    name: Any


class TableReader(NamedTuple):
    """How something of a package is read."""

    size: Callable[[Any], tuple[int, int]]
    """How many items and bytes it has, at least: known without reading it."""
    parts: Parts
    is_random: bool = False
    """Whether it gives random numbers: its state changes by use."""


def table_reader(found: type) -> TableReader | None:
    """How objects of a class are read; None where they are not, or where the class is a person's own."""
    if package_of(found) not in _PACKAGES:
        return None
    names = ((package_of(base), type_qualname(base)) for base in type_mro(found))
    return next((_READERS[name] for name in names if name in _READERS), None)


def package_of(found: type) -> str:
    """The package of a class, also where its metaclass is written in C."""
    return str(type.__dict__["__module__"].__get__(found)).partition(".")[0]


def _small(_: Any) -> tuple[int, int]:
    return 1, 0


def _repr_text(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".text", repr(value)


# pandas.


def _frame_size(value: Any) -> tuple[int, int]:
    return value.size + len(value.index), int(value.memory_usage(index=False).sum())


def _frame(value: Any) -> Iterator[tuple[Any, Any]]:
    yield ".columns", value.columns
    yield ".index", value.index
    yield ".dtypes", [str(found) for found in value.dtypes]
    for place, name in enumerate(value.columns.tolist()):
        yield ColumnName(name), _column(value.iloc[:, place].array)
    yield from _frame_marks(value)


def _frame_marks(value: Any) -> Iterator[tuple[str, Any]]:
    if value.attrs:
        yield ".attrs", dict(value.attrs)
    if not value.flags.allows_duplicate_labels:
        yield ".flags.allows_duplicate_labels", False


def _array_size(value: Any) -> tuple[int, int]:
    return len(value), int(value.nbytes)


def _series(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".name", value.name
    yield ".index", value.index
    yield from _typed(value)
    yield from _frame_marks(value)


def _index(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".names", list(value.names)
    yield from _typed(value)
    if getattr(value, "freq", None) is not None:
        yield ".freq", str(value.freq)


def _range_size(value: Any) -> tuple[int, int]:
    return (1, 0) if type_qualname(type(value)) == "RangeIndex" else _array_size(value)


def _range_index(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".names", list(value.names)
    yield ".values", range(value.start, value.stop, value.step)


def _labels(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".names", list(value.names)
    yield ".dtypes", [str(level.dtype) for level in value.levels]
    yield ".values", value.tolist()


def _typed(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".dtype", str(value.dtype)
    yield ".values", _column(getattr(value, "array", value))


def _column(values: Any) -> Any:
    """The values of a column, as Python has them; moments as the numbers that they are kept as."""
    if type_qualname(type(values)) == "Categorical":
        categories = [_column(values.categories.array), bool(values.ordered)]
        return {"categories": categories, "codes": values.codes.tolist()}
    if type_qualname(type(values)) in _NUMBERS_OF_PANDAS:
        return values.to_numpy().tolist()
    moments = getattr(values, "asi8", None)
    return values.tolist() if moments is None else moments.tolist()


# polars.


def _polars_frame(value: Any) -> Iterator[tuple[Any, Any]]:
    yield ".columns", list(value.columns)
    yield ".dtypes", [repr(found) for found in value.dtypes]
    for column in value.get_columns():
        yield ColumnName(column.name), column.to_list()


def _polars_series(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".name", value.name
    yield ".dtype", repr(value.dtype)
    yield ".values", value.to_list()


# pyarrow.


def _arrow_table(value: Any) -> Iterator[tuple[Any, Any]]:
    yield ".schema", _schema_text(value.schema)
    for place, name in enumerate(value.schema.names):
        yield ColumnName(name), value.column(place).to_pylist()


def _arrow_array(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".type", str(value.type)
    yield ".values", value.to_pylist()


def _arrow_scalar(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".type", str(value.type)
    yield ".value", value.as_py()


def _schema_text(value: Any) -> str:
    return str(value.to_string(truncate_metadata=False))


def _arrow_schema(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".text", _schema_text(value)


def _arrow_field(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".text", str(value.to_string())
    if value.metadata:
        yield ".metadata", dict(value.metadata)


# numpy.


def _number_type(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".text", repr(value)
    if value.metadata:
        yield ".metadata", dict(value.metadata)


def _generator(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".state", value.bit_generator.state


def _bits(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".state", value.state


def _random_state(value: Any) -> Iterator[tuple[str, Any]]:
    yield ".state", value.get_state(legacy=False)


_PACKAGES = frozenset({"numpy", "pandas", "polars", "pyarrow"})
_NUMBERS_OF_PANDAS = frozenset({"NumpyExtensionArray", "PandasArray"})
_SCALARS_OF_PANDAS = ("NAType", "NaTType", "Timestamp", "Timedelta", "Interval", "Period", "ExtensionDtype")
_READERS: dict[tuple[str, str], TableReader] = {
    ("pandas", "DataFrame"): TableReader(_frame_size, _frame),
    ("pandas", "Series"): TableReader(_array_size, _series),
    ("pandas", "MultiIndex"): TableReader(_array_size, _labels),
    ("pandas", "RangeIndex"): TableReader(_range_size, _range_index),
    ("pandas", "Index"): TableReader(_array_size, _index),
    ("pandas", "ExtensionArray"): TableReader(_array_size, _typed),
    **{("pandas", name): TableReader(_small, _repr_text) for name in _SCALARS_OF_PANDAS},
    ("polars", "DataFrame"): TableReader(
        lambda value: (value.height * value.width, value.estimated_size()), _polars_frame
    ),
    ("polars", "Series"): TableReader(lambda value: (len(value), value.estimated_size()), _polars_series),
    ("polars", "DataType"): TableReader(_small, _repr_text),
    **dict.fromkeys(
        (("pyarrow", "Table"), ("pyarrow", "RecordBatch")),
        TableReader(lambda value: (value.num_rows * value.num_columns, value.nbytes), _arrow_table),
    ),
    **dict.fromkeys((("pyarrow", "Array"), ("pyarrow", "ChunkedArray")), TableReader(_array_size, _arrow_array)),
    ("pyarrow", "Scalar"): TableReader(_small, _arrow_scalar),
    ("pyarrow", "Schema"): TableReader(_small, _arrow_schema),
    ("pyarrow", "Field"): TableReader(_small, _arrow_field),
    ("pyarrow", "DataType"): TableReader(_small, _repr_text),
    ("numpy", "dtype"): TableReader(_small, _number_type),
    ("numpy", "Generator"): TableReader(_small, _generator, is_random=True),
    ("numpy", "BitGenerator"): TableReader(_small, _bits, is_random=True),
    ("numpy", "RandomState"): TableReader(_small, _random_state, is_random=True),
}
"""By package and class, also for the classes that the package derives from it."""
