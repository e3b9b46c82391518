"""What the machine is, and which parts of it a recording depends on."""
import ctypes
import shutil

COMMANDS = {
    "gpu": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"],
    "nvcc": ["nvcc", "--version"],
    "kernel": ["uname", "-srm"],
    "shared memory": ["df", "-h", "/dev/shm"],
    "interfaces": ["ip", "-brief", "address"],
}
# CUdevice_attribute of cuda.h.
ATTRIBUTES = {"unified addressing": 41, "managed memory": 83, "pageable memory access": 88,
              "concurrent managed access": 89}


def facts(recorder):
    found = {}
    for name, words in COMMANDS.items():
        there = shutil.which(words[0]) is not None
        found[name] = recorder.command(words, 20)[1].strip() if there else "(no such command)"
    code, said = recorder.command(["git", "describe", "--always", "--dirty"], 20)
    recorder.options.version = recorder.options.version or (said.strip() if code == 0 else "(not known)")
    found["lockstep"] = recorder.options.version
    found["variables"] = {name: value for name, value in sorted(recorder.environment.items())
                          if name.startswith(("NCCL_", "LOCKSTEP_", "CUDA_"))}
    found["driver"] = driver()
    return found


def driver():
    """The newest CUDA that the driver serves, and what its first device can do with memory."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"missing": str(error)}
    number = ctypes.c_int()
    library.cuInit(0)
    library.cuDriverGetVersion(ctypes.byref(number))
    found = {"cuda": f"{number.value // 1000}.{number.value % 1000 // 10}"}
    for name, attribute in ATTRIBUTES.items():
        if library.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0) == 0:
            found[name] = bool(number.value)
    return found
