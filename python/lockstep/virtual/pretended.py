"""--device cpu-as-cuda: a script for GPUs runs on the CPU. What asks for a device is given the CPU; streams and events
do nothing, in order; what cannot be done without a GPU is refused by name."""
from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.parallel  # noqa: F401
import torch.utils.data  # noqa: F401
from torch.overrides import TorchFunctionMode

from lockstep.virtual import half_convolutions, pretended_types, sync_batch_norm
from lockstep.virtual.connection import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
MEMORY = 80 << 30  # Of the device that is pretended.
_MAKERS = frozenset(("tensor", "as_tensor", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange",
                     "linspace", "eye", "new_tensor", "new_zeros", "new_ones", "new_full", "new_empty"))
_DEVICES = ("device",)
_NO_SUCH_GPU: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)
_NOTHING = ("synchronize", "empty_cache", "ipc_collect", "init", "reset_peak_memory_stats", "reset_max_memory_allocated",
            "reset_accumulated_memory_stats", "reset_max_memory_cached", "set_per_process_memory_fraction", "seed",
            "_lazy_init", "_lazy_call")
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "utilization", "temperature",
         "power_draw", "clock_rate")
_REFUSED = ("CUDAGraph", "graph", "make_graphed_callables", "MemPool", "CUDAPluggableAllocator")


def is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


class _Node:
    """What seems to be there."""

    gpus = 0
    is_installed = False  # In this process, or one that it was forked from.
    current = 0  # Of this process: the first until it chooses, as CUDA has it.


def _require(index: int | None) -> None:
    """Raises what PyTorch raises for a GPU that the node does not have, as where a rank takes its global number for its local
    one."""
    if index is not None and not -1 <= index < _Node.gpus:
        raise _NO_SUCH_GPU(f"CUDA error: invalid device ordinal\ncuda:{index}: this node seems to have {_Node.gpus} GPUs "
                           "(--device cpu-as-cuda:N)")


def _moved(device: Any) -> Any:
    """What a device becomes; anything else as it is."""
    if is_cuda(device):
        _require(torch.device(device).index)
        return CPU
    return device


def _numbered(index: int) -> Any:
    _require(index)
    return CPU


def _keyword(name: str, value: Any) -> Any:
    if name in _DEVICES and isinstance(value, int) and not isinstance(value, bool):
        return _numbered(value)
    return _moved(value) if name in _DEVICES else value


def _require_given(name: str, args: Any, kwargs: Any) -> None:
    """Of x.cuda(device)."""
    device = kwargs.get("device", args[1] if len(args) > 1 else None)
    if name == "cuda" and device is not None:
        _keyword("device", device)


class _OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Sees every call of PyTorch's functions that Python code makes, PyTorch's own included."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("cuda", "pin_memory") and args:
            _require_given(name, args, kwargs or {})
            return args[0]
        if name == "to" and len(args) > 1:
            args = (args[0], _numbered(args[1]) if type(args[1]) is int else _moved(args[1]), *args[2:])
        elif name in _MAKERS:
            args = tuple(_moved(each) for each in args)
        elif name == "type":
            args = tuple(pretended_types.of_cpu(each) for each in args)
        if kwargs:
            kwargs = {key: _keyword(key, value) for key, value in kwargs.items() if key != "pin_memory"}
        if name in half_convolutions.NAMES:
            return half_convolutions.convolve(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class Stream:
    """A stream, an event, or the context of either: on the CPU all work is done in the order in which it is asked for."""

    cuda_stream = stream_id = device_index = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def record(self, *_: Any, **__: Any) -> None:
        pass

    record_event = wait_event = wait_stream = wait = synchronize = record

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, _: Any) -> float:
        return 0.0


class _Chosen:
    """torch.cuda.device: inside, this GPU is the current one."""

    def __init__(self, device: Any) -> None:
        self._index = device if isinstance(device, int) else torch.device(device).index if device is not None else None
        _require(self._index)

    def __enter__(self) -> None:
        self._before = _Node.current
        _Node.current = self._before if self._index is None or self._index < 0 else self._index

    def __exit__(self, *_: object) -> None:
        _Node.current = self._before


class Properties:
    """Of the device that is pretended."""

    name = "CPU, pretending to be CUDA"
    major, minor = 8, 0
    total_memory = MEMORY
    multi_processor_count = 1
    warp_size = 32
    is_integrated = is_multi_gpu_board = 0


def show(gpus: int) -> None:
    """As many seem to be there. Nothing is put on them yet."""
    _Node.gpus = gpus
    for module in (torch.cuda, torch.accelerator):
        setattr(module, "is_available", lambda: True)
        setattr(module, "device_count", lambda: _Node.gpus)
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")


def install(gpus: int) -> None:
    """In the process of a rank, after the fork and before its script, or of a script that starts ranks, whose processes may
    have it from there.

    Args:
        gpus: that the node seems to have; 0: none, and what asks for one is answered so.
    """
    if gpus == 0:
        torch.cuda._lazy_init = _say_that_there_is_none
        return
    show(gpus)
    if _Node.is_installed:
        return
    _Node.is_installed = True
    mode = _OnCpu()
    mode.__enter__()
    _install_backward(mode)
    _install_devices()
    _install_modules()
    pretended_types.install(_moved)
    sync_batch_norm.install()
    _install_precision()
    _install_distributed()
    torch.compiler.set_stance("force_eager")  # What is compiled for a GPU asks for its streams.
    _refuse()


def _say_that_there_is_none() -> None:
    """PyTorch would say that CUDA cannot be used in a process that was forked, whether there is a GPU or not."""
    raise RuntimeError("No CUDA GPUs are available: virtual ranks compute on the CPU; --device cpu-as-cuda runs scripts for GPUs there")


def _install_backward(mode: _OnCpu) -> None:
    """While a call such as x.backward() is handled the mode sees no others: nodes and hooks of a script's own run inside."""
    real = torch.autograd._engine_run_backward

    @functools.wraps(real)
    def run(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return real(*args, **kwargs)

    torch.autograd._engine_run_backward = run


def _install_devices() -> None:
    def set_device(device: Any) -> None:
        index = torch.device(device).index if not isinstance(device, int) else device
        _require(index)
        _Node.current = _Node.current if index is None or index < 0 else index

    cuda = torch.cuda
    # Classes of their own: the compiler notes each by its class.
    stream, event, external = (type(name, (Stream,), {}) for name in ("Stream", "Event", "ExternalStream"))
    answers: dict[str, Callable[..., Any]] = {
        "set_device": set_device, "current_device": lambda: _Node.current, "current_stream": stream, "default_stream": stream,
        "stream": Stream, "device": _Chosen, "Stream": stream, "Event": event, "ExternalStream": external,
        "set_stream": lambda *_: None, "get_device_name": lambda *_: Properties.name,
        "get_device_properties": lambda *_: Properties(), "get_device_capability": lambda *_: (8, 0),
        "is_bf16_supported": lambda *_, **__: True, "is_initialized": lambda: True,
        "mem_get_info": lambda *_: (MEMORY, MEMORY), "memory_stats": lambda *_: {}, "memory_summary": lambda *_, **__: "",
        "manual_seed": lambda *_: None, "manual_seed_all": lambda *_: None, "seed_all": lambda *_: None,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda *_: torch.get_rng_state(), "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda *_: None, "set_rng_state_all": lambda *_: None,
        "can_device_access_peer": lambda *_: True, "is_current_stream_capturing": lambda: False}
    answers.update({name: (lambda *_, **__: None) for name in _NOTHING})
    answers.update({name: (lambda *_, **__: 0) for name in _ZERO})
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    load = torch.load

    @functools.wraps(load)
    def load_on_cpu(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(file, map_location if callable(map_location) else CPU, *args, **kwargs)

    torch.load = torch.serialization.load = load_on_cpu  # Either may be looked up, and wrapped, by others.
    torch.Stream, torch.Event = (type(name, (Stream,), {}) for name in ("Stream", "Event"))
    for name in ("_record_memory_history", "_dump_snapshot", "_set_allocator_settings"):
        setattr(cuda.memory, name, lambda *_, **__: None)
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(cuda.nvtx, name, lambda *_: 0)
    torch.accelerator.set_device_index = set_device
    torch.accelerator.current_device_index = lambda: _Node.current
    torch.accelerator.current_stream = Stream
    torch.accelerator.synchronize = lambda *_: None


def _install_modules() -> None:
    module: Any = torch.nn.Module
    to = module.to

    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        return to(self, *(_numbered(each) if type(each) is int else _moved(each) for each in args),
                  **{name: _keyword(name, value) for name, value in kwargs.items()})

    def on_gpu(self: Any, device: Any = None) -> Any:
        return self if device is None else moved(self, device)

    module.to = moved
    module.cuda = on_gpu
    _wrap(torch.nn.parallel.DistributedDataParallel, device_ids=None, output_device=None)
    loader: Any = torch.utils.data.DataLoader
    real = loader.__init__

    @functools.wraps(real)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self.pin_memory = False  # A thread of the loader would do it.

    loader.__init__ = init


def _wrap(owner: Any, **fixed: Any) -> None:
    """The constructor is given `fixed`, whatever the script says."""
    real = owner.__init__
    names = real.__code__.co_varnames[1:real.__code__.co_argcount] if hasattr(real, "__code__") else ()

    @functools.wraps(real)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(names, args)) if len(args) <= len(names) else {}
        real(self, **{**given, **kwargs, **fixed})

    owner.__init__ = init


def _install_precision() -> None:
    autocast: Any = torch.autocast
    real = autocast.__init__

    @functools.wraps(real)
    def cast(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        real(self, device_type, dtype, *args, **kwargs)

    autocast.__init__ = cast
    scaler: Any = torch.amp.GradScaler
    real_scaler = scaler.__init__

    @functools.wraps(real_scaler)
    def scale(self: Any, device: str = "cpu", *args: Any, **kwargs: Any) -> None:
        real_scaler(self, "cpu", *args, **kwargs)

    scaler.__init__ = scale


def _install_distributed() -> None:
    import torch.distributed as dist

    c10d = dist.distributed_c10d
    start = c10d.init_process_group

    @functools.wraps(start)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        start(*args, **kwargs)

    barrier = c10d.barrier

    @functools.wraps(barrier)
    def wait_for_all(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return barrier(group, async_op)

    for module in (dist, c10d):
        module.init_process_group = init_process_group  # type: ignore[attr-defined]
        module.barrier = wait_for_all  # type: ignore[attr-defined]
    mesh = sys.modules.get("torch.distributed.device_mesh")
    if mesh is not None:
        make: Any = mesh.init_device_mesh  # type: ignore[attr-defined]

        def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
            return make("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

        for module in (mesh, dist):
            module.init_device_mesh = init_device_mesh  # type: ignore[attr-defined]


def _refuse() -> None:
    def refusing(name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> None:
            raise Refused(f"{name} is not simulated: --device cpu-as-cuda runs on the CPU")
        return refuse

    for name in _REFUSED:
        thing, refuse = getattr(torch.cuda, name, None), refusing(f"torch.cuda.{name}")
        if isinstance(thing, type):  # PyTorch asks whether things are instances of it.
            setattr(torch.cuda, name, type(name, (thing,), {"__new__": refuse}))
        elif thing is not None:
            setattr(torch.cuda, name, refuse)
    torch.nn.DataParallel.__init__ = refusing("torch.nn.DataParallel")  # type: ignore[method-assign]
    extensions = "torch.utils.cpp_extension"
    try:
        import torch.utils.cpp_extension as extension

        extension.CUDAExtension = refusing(f"{extensions}.CUDAExtension")
    except ImportError:
        pass
    runtime = sys.modules.get("triton.runtime.jit")
    if runtime is not None:
        runtime.JITFunction.run = refusing("a kernel of Triton")  # type: ignore[attr-defined]
