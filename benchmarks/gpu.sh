#!/usr/bin/env bash
# Tests and times seqarray on a GPU, in four minutes at most: for the day when one is at hand.
#
#     benchmarks/gpu.sh OUT_FOLDER [WHEEL_FOLDER]
#
# Runs the tests that are marked gpu, some of them again under compute-sanitizer, and the benchmarks on CuPy arrays.  A
# step that fails does not end the others.  OUT_FOLDER gets summary.txt and, of every step, a log and its results.
#
# PYTHON is the interpreter to use (default: python3).  If it lacks packages, all wheels in WHEEL_FOLDER are installed
# into OUT_FOLDER/packages: what is missing, and what that needs.  Nothing is fetched.
#
# Without a usable GPU it goes as far as it can: packages, collection of the tests, start of the benchmarks.
#
# Exit status: 0 if all steps passed, 1 if one failed, 2 for wrong arguments, 3 if there is no usable GPU.
set -euo pipefail

if (($# < 1 || $# > 2)); then
    echo "usage: ${BASH_SOURCE[0]} OUT_FOLDER [WHEEL_FOLDER]" >&2
    exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
wheels=
if (($# == 2)); then
    [[ -d $2 ]] || { echo "WHEEL_FOLDER is $2, which is not a folder" >&2 && exit 2; }
    wheels=$(cd "$2" && pwd)
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Seconds for everything; each step has a limit of its own besides.
readonly TOTAL=228
readonly SUMMARY="$out/summary.txt"
python=${PYTHON:-python3}
export PYTHONPATH="$PWD:$out/packages${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
failed=0
: >"$SUMMARY"

say() {
    echo "$*" | tee -a "$SUMMARY"
}

# step NAME SECONDS COMMAND...: runs a command, with its output in NAME.log, and says how it ended; returns its status,
# 124 if the time was up.  Whoever is interrupted has ten seconds to write down what there is.
step() {
    local name=$1 limit=$2 log="$out/$1.log" left=$((TOTAL - SECONDS)) began=$SECONDS status=0
    shift 2
    if ((left < 10)); then
        say "$name: left out, the time is up"
        failed=1
        return 124
    fi
    ((limit < left)) || limit=$left
    timeout --signal=INT --kill-after=10 "$limit" "$@" >"$log" 2>&1 || status=$?
    case $status in
    0) say "$name: passed in $((SECONDS - began)) s" ;;
    124 | 137) say "$name: stopped after $((SECONDS - began)) s" ;;
    *) say "$name: failed with status $status, see $log" && tail -n 15 "$log" ;;
    esac
    return "$status"
}

# must NAME SECONDS COMMAND...: a step whose failure is one of the script.
must() {
    step "$@" || failed=1
}

finish() {
    say "took $SECONDS s; everything is in $out"
    exit "$1"
}

# Prints the packages that the interpreter lacks.
missing_packages() {
    "$python" - <<'END'
from importlib import import_module

packages = {
    "numpy": "numpy",
    "array_api_compat": "array-api-compat",
    "cupy": "cupy-cuda13x (or cupy-cuda12x)",
    "pytest": "pytest",
    "hypothesis": "hypothesis",
    "array_api_strict": "array-api-strict",
    "rich": "rich",
}
for module, package in packages.items():
    try:
        import_module(module)
    except ImportError:
        print(package)
END
}

# ---- packages

if ! command -v "$python" >/dev/null; then
    say "packages: there is no $python"
    finish 1
fi
missing=$(missing_packages)
if [[ -n $missing && -n $wheels ]]; then
    echo "missing: ${missing//$'\n'/, }"
    must packages 90 "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade \
        --target "$out/packages" "$wheels"/*.whl
    # CuPy looks for CUDA's libraries beside itself only where it is installed for good.
    for folder in "$out"/packages/nvidia/*/lib; do
        [[ -d $folder ]] && export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
    missing=$(missing_packages)
fi
if [[ -n $missing ]]; then
    say "packages: $python lacks ${missing//$'\n'/, }; put their wheels into a WHEEL_FOLDER"
    finish 1
fi
say "packages: all there"

# ---- device

describe_device() {
    cat <<'END'
import platform

import cupy

runtime = cupy.cuda.runtime


def version(number):
    return f"{number // 1000}.{number % 1000 // 10}"


print(f"Python {platform.python_version()}, CuPy {cupy.__version__}, CUDA {version(runtime.runtimeGetVersion())}")
if not cupy.cuda.is_available():
    raise SystemExit(3)
free, total = runtime.memGetInfo()
name = runtime.getDeviceProperties(0)["name"].decode()
print(f"{name}, compute capability {cupy.cuda.Device().compute_capability}, {runtime.getDeviceCount()} of them")
print(f"driver for CUDA {version(runtime.driverGetVersion())}; {free >> 20} of {total >> 20} MiB free")

# What a copy can reach: bytes read and written by the device's own, between two halves of a fourth of what is free.
nbytes = min(free // 8, 4 << 30)
source, target = cupy.zeros(nbytes, "uint8"), cupy.zeros(nbytes, "uint8")
stream, seconds = cupy.cuda.get_current_stream(), []
for _ in range(10):
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    runtime.memcpyAsync(target.data.ptr, source.data.ptr, nbytes, runtime.memcpyDeviceToDevice, stream.ptr)
    end.record()
    end.synchronize()
    seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
print(f"copy within the device: {2 * nbytes / min(seconds) / 1e9:.0f} GB/s at best of 10, read and written")
END
}

# compute-sanitizer on the PATH, or else of a toolkit or a wheel.
find_sanitizer() {
    local found
    for found in "$(command -v compute-sanitizer || true)" "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer \
        /usr/local/cuda*/bin/compute-sanitizer "$out"/packages/nvidia/*/bin/compute-sanitizer \
        "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"/nvidia/*/bin/compute-sanitizer; do
        [[ -x $found ]] && echo "$found" && return
    done
    return 0
}

status=0
describe_device >"$out/device.py"
timeout 60 "$python" "$out/device.py" >"$out/device.log" 2>&1 || status=$?
tee -a "$SUMMARY" <"$out/device.log"
if command -v nvidia-smi >/dev/null; then
    timeout 20 nvidia-smi >"$out/nvidia-smi.log" 2>&1 || true
fi
sanitizer=$(find_sanitizer)
say "compute-sanitizer: ${sanitizer:-not found}"

pytest=("$python" -m pytest -p no:cacheprovider -m gpu tests/test_gpu.py)
bench=("$python" -m benchmarks)
if ((status == 3)); then
    must collection 60 "${pytest[@]}" --backend cupy --collect-only -q
    must benchmarks 60 "${bench[@]}" run --help
    say "no usable GPU: nothing was run on a device"
    ((failed == 0)) || finish 1
    finish 3
elif ((status != 0)); then
    say "device: failed with status $status; the GPU is there and does not work"
    finish 1
fi

# ---- tests

must tests 110 "${pytest[@]}" --backend cupy -rs --junit-xml="$out/tests.xml" --durations=15 -v
if [[ -s $out/tests.log ]]; then
    { grep "^SKIPPED" "$out/tests.log" || true; } | tee -a "$SUMMARY"
    tail -n 1 "$out/tests.log" | tee -a "$SUMMARY"
fi
if [[ -s $out/tests.xml ]]; then
    { grep -o 'name="finding" value="[^"]*"' "$out/tests.xml" || true; } | tee -a "$SUMMARY"
fi

# ---- compute-sanitizer

# Under it a kernel takes many times as long: a few cases of all operators, and of the variants with the most to look up.
if [[ -n $sanitizer ]]; then
    if step sanitizer-works 25 "$sanitizer" "$python" -c "import cupy; assert int(cupy.ones(3).sum()) == 3"; then
        export SEQARRAY_GPU_CASES=24
        for tool in memcheck racecheck; do
            must "$tool" 30 "$sanitizer" --tool "$tool" --error-exitcode 99 "${pytest[@]}" --backend cupy \
                -k "random_cases and not variant or ragged and 4040"
        done
        unset SEQARRAY_GPU_CASES
    else
        say "compute-sanitizer: it does not work on this device, so nothing was run under it"
    fi
fi

# ---- benchmarks

# All sizes in the time that is left, of which starting takes some, or else one size of each case.
chosen=(--backends cupy --peers "cupy,cupy slices,torch" --json "$out/benchmarks.json")
left=$((TOTAL - SECONDS - 20))
if ((left > 40)); then
    chosen+=(--seconds "$left")
else
    chosen+=(--quick)
fi
must benchmarks "$TOTAL" "${bench[@]}" run "${chosen[@]}"
if [[ -s $out/benchmarks.md ]]; then
    say "benchmarks: $out/benchmarks.json, $out/benchmarks.md"
fi

finish "$failed"
