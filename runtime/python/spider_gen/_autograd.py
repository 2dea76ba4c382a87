"""Refuses arrays that need a gradient or are traced, where no operator takes them. Makes torch.compile call kernels instead of
tracing what calls them."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import sys
from typing import Any, Callable, Iterable

_TRACED = ("_traced", "_torch")
_dynamo_knows = False


def untraced(function: Callable) -> Callable:
    """Makes torch.compile break its graph at the function and call it, instead of tracing it."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "spider_gen calls a compiled kernel, which cannot be traced"
    return function


def keep_dynamo_out() -> None:
    """Makes torch.compile skip the functions of this package but those that lead to operators. `untraced` functions call it
    first."""
    if not _dynamo_knows and "torch._dynamo" in sys.modules:
        _tell_dynamo()


@untraced
def _tell_dynamo() -> None:
    global _dynamo_knows
    with contextlib.suppress(ImportError, AttributeError):  # PyTorch before 2.1
        from torch._dynamo import trace_rules

        for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
            if module.name not in _TRACED:
                trace_rules.add(f"{__package__}.{module.name}")
    _dynamo_knows = True


def refuse(array: Any, what: str) -> None:
    """TypeError where a gradient would be lost, or where the array has no values yet because a library traces it."""
    library = type(array).__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        _refuse_tensor(torch, array, what)
    elif is_jax_tracer(array):
        raise TypeError(f"{what} is traced by JAX (jit, vmap, grad) and has no values yet: call this outside of the traced "
                        f"function, or through jax.pure_callback")
    elif _is_fx_proxy(array):
        raise TypeError(f"{what} is traced by torch.fx and has no values yet: call the stencil outside of the traced function")
    elif library != "cupy" and _records(array):
        raise TypeError(f"{what} requires a gradient, and a kernel gives none: pass an array without one")


def is_plain(torch: Any, tensor: Any) -> bool:
    """Whether `refuse` accepts a tensor of the type torch.Tensor that has an address."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return False
    return torch._C._get_tracing_state() is None and not has_tangent(tensor)


def _refuse_tensor(torch: Any, tensor: Any, what: str) -> None:
    if is_transformed(torch, tensor):
        raise TypeError(f"{what} is transformed by torch.func, and this call takes plain tensors: with PyTorch 2.4 or newer calls "
                        f"without `out`, `stream`, `in_place` and `progress`, of specs without `halo` faces, take others")
    if torch._C._get_tracing_state() is not None:
        raise TypeError(f"{what} is traced by torch.jit.trace, which would record the result as a constant: call the stencil "
                        f"outside of the traced function")
    if getattr(type(tensor), "__torch_dispatch__", None) is not getattr(torch.Tensor, "__torch_dispatch__", None):
        raise TypeError(f"{what} is a {type(tensor).__name__}, which need not hold its values itself: pass a plain "
                        f"torch.Tensor")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise TypeError(f"{what} requires a gradient, and a kernel gives none: detach it: {what}.detach(), or call under "
                        f"torch.no_grad(). Calls without `out`, `stream`, `in_place` and `progress` give one, of PyTorch 2.4 or newer")
    if has_tangent(tensor):
        raise TypeError(f"{what} has a tangent (forward mode), and a kernel gives none: pass the primal of "
                        f"torch.autograd.forward_ad.unpack_dual({what})")


def is_transformed(torch: Any, tensor: Any) -> bool:
    functorch = getattr(torch._C, "_functorch", None)  # from PyTorch 2.0
    return functorch is not None and functorch.is_functorch_wrapped_tensor(tensor)


def has_tangent(tensor: Any) -> bool:
    forward = sys.modules.get("torch.autograd.forward_ad")
    if forward is None or forward._current_level < 0:
        return False
    return forward.unpack_dual(tensor).tangent is not None


def _records(array: Any) -> bool:
    """Whether the array needs a gradient, by the attributes of Warp and Paddle."""
    return getattr(array, "requires_grad", False) is True or getattr(array, "stop_gradient", True) is False


def is_for_jax(arrays: Iterable[Any], *asked: Any) -> bool:
    """Whether JAX runs the kernel: for arrays of JAX, where nothing is asked for (None, False) that only others have, and for all
    that it traces."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    found = [array for array in arrays if isinstance(array, jax.Array)]
    if any(map(is_jax_tracer, found)):
        return True
    return any(array.ndim > 0 for array in found) and all(one is None or one is False for one in asked)


def is_jax_tracer(array: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.core.Tracer)


def _is_fx_proxy(array: Any) -> bool:
    fx = sys.modules.get("torch.fx")
    return fx is not None and isinstance(array, fx.Proxy)


def mark_written(array: Any) -> None:
    """Tells PyTorch that a kernel wrote to a tensor: a backward pass that needs the old values then raises."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        increment = getattr(torch.autograd.graph, "increment_version", None)  # from PyTorch 2.1
        if increment is not None:
            increment(array)


def number(value: Any, what: str) -> float:
    """A scalar as a float. TypeError where it is no real number, or requires a gradient."""
    if type(value) in (float, int):
        return float(value)
    refuse(value, what)
    shape = getattr(value, "shape", ())
    if isinstance(value, (str, bytes, bytearray)) or len(shape) > 0:
        given = f"an array of shape {tuple(shape)}" if len(shape) > 0 else f"a {type(value).__name__}"
        raise TypeError(f"{what} is a number, not {given}")
    if getattr(getattr(value, "dtype", None), "kind", "f") == "c" or isinstance(value, complex):
        raise TypeError(f"{what} is a real number, not a complex one")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{what} is a number, not a {type(value).__name__}") from error
