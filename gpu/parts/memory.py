"""What tensors in managed memory cost beside memory of the device alone."""
import json

NO_GPU = 3


def memory(recorder):
    """Kernels, a batch there and back, numbers that the host reads, allocations. Run it when nothing else does."""
    title = "managed memory beside plain"
    if recorder.passes_over(title, on_gpu=True):
        return
    program = recorder.build / "bin" / "gpu_memory_bench"
    if not program.exists():
        recorder.not_done(title, "gpu_memory_bench is not built")
        return
    code, said = recorder.command([program], 60)
    lines = said.splitlines()
    if code == NO_GPU:
        recorder.not_done(title, lines[-1])
        return
    recorder.note(title, code, **(json.loads(lines[-1]) if code == 0 else {}), said=lines[-6:] if code else [])
