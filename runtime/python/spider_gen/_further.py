"""What an update takes beside its input."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Mapping, Sequence

from . import _arrays, _autograd, _transfers, spider

OWN_WORDS = ("out", "stream", "steps", "progress", "checkpoint", "snapshots")


def storages_of(info: spider.Info, given: Mapping[str, Any]) -> dict[str, str]:
    """The arrays that an update takes beside its input, by name, with their storages. TypeError where what is `given` lacks one, or
    has a name that is not the spec's."""
    arrays = {info.previous: info.storage} if info.previous else {}
    arrays |= dict(info.fields)
    wanted = [*arrays, *info.scalars]
    for name in wanted:
        if name in OWN_WORDS:
            raise TypeError(f"{info.name} takes a {name}, which calls have a meaning of their own for: give it another name in the "
                            f"spec")
    if set(wanted) != set(given):
        missing, unknown = [name for name in wanted if name not in given], [name for name in given if name not in wanted]
        what = f"needs {', '.join(missing)} by name" if missing else f"takes no {', '.join(unknown)}"
        raise TypeError(f"{info.name} {what}: beside u it takes {', '.join(wanted) or 'nothing'}")
    return arrays


@dataclasses.dataclass
class Further:
    """What an update takes beside its input."""

    previous: _arrays.Array | None
    fields: list[_arrays.Array]
    scalars: list[float]
    storages: list[str]
    names: list[str]  #: of all arrays, then of all scalars

    @property
    def arrays(self) -> list[_arrays.Array]:
        return [*([self.previous] if self.previous else []), *self.fields]

    @property
    def some(self) -> bool:
        return self.previous is not None or bool(self.fields) or bool(self.scalars)

    @staticmethod
    def of(info: spider.Info, source: _arrays.Array, given: Mapping[str, Any], layout: Any = None) -> Further:
        """TypeError where a name is missing or not the spec's. Of a batch (_images.Layout) arrays come in the order of its
        axes; a field may be one for all images."""
        arrays = storages_of(info, given)
        found = {name: _arrays.wrap(given[name], name) for name in arrays}
        for name, array in found.items():
            if layout is None:
                _arrays.check_type(array, info, name, arrays[name])
            else:
                _arrays.check_elements(array, info, name, arrays[name])
            is_field_of_all = layout is not None and name != info.previous and array.shape == layout.own
            if array.shape != source.shape and not is_field_of_all:
                one = "" if layout is None or name == info.previous else f"; a field for all images has {layout.own}"
                raise ValueError(f"{name} has the shape {array.shape}, and u {source.shape}{one}")
            if array.on_device != source.on_device:
                raise TypeError(f"{name} and u are not in one place: both on the host, or both on a device")
            if layout is not None:
                found[name] = array.repeated(layout.shape) if is_field_of_all else layout.arranged(array, name)
        return Further(found.get(info.previous), [found[name] for name, _ in info.fields],
                       [_autograd.number(given[name], name) for name in info.scalars],
                       [storage for _, storage in info.fields], [*found, *info.scalars])

    def named(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """What a call is given: these arrays in the place of its own, and the scalars."""
        return dict(zip(self.names, [*arrays, *self.scalars]))

    def laid_out(self, kernel: Any) -> Further:
        """Itself, or another with copies of the arrays whose strides the kernel does not take."""
        if not self.previous and not self.fields:
            return self
        shape = (self.previous or self.fields[0]).shape
        none, around = [(0, 0)] * len(shape), kernel.halo_of_fields(*shape)
        previous = self.previous and _arrays.readable(self.previous, none, kernel.info)
        fields = [_arrays.readable(field, around, kernel.info) for field in self.fields]
        if previous is self.previous and all(a is b for a, b in zip(fields, self.fields)):
            return self
        return dataclasses.replace(self, previous=previous, fields=fields)

    def views(self) -> tuple[Any, list[Any], list[float]]:
        return self.previous and self.previous.view, [field.view for field in self.fields], self.scalars

    def uploaded(self, library: Any, kernel: Any) -> tuple[Any, list[Any], list[float]]:
        """In memory of the device."""
        up = functools.partial(_transfers.further_field, library, kernel)
        previous = self.previous and up(self.previous, kernel.info.storage)
        return previous, [up(field, storage) for field, storage in zip(self.fields, self.storages)], self.scalars
