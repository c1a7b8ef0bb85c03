// The CUDA driver and runtime as CuPy calls them, done by this process.  Each function has the signature of the entry
// point of the same name in cupy_backends.cuda.api: `runtime_NAME` and `driver_NAME`; CuPy's entry points that are not
// here are refused.
//
// Device memory is host memory, a range of addresses for each device.  A kernel is a function in a shared object.
// All is done at once, on the calling thread, which holds the GIL.  While a kernel runs, the memory of the other devices
// cannot be touched, and a fault in the kernel becomes the exception that CUDA has for it.
#include <Python.h>

#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

enum Status {
    invalid_value = 1,
    memory_allocation = 2,
    invalid_configuration = 9,
    invalid_device = 101,
    invalid_resource_handle = 400,
    not_found = 500,
    illegal_address = 700,
    misaligned_address = 716,
    launch_failure = 719,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_implicit = 906,
    captured_event = 907,
};

enum CopyKind { host_to_host, host_to_device, device_to_host, device_to_device, inferred };

// As in counting.py.
enum EventKind { launch_event, malloc_event, upload_event, download_event, copy_event, peer_copy_event, fill_event,
                 synchronize_event };

struct Event {
    EventKind kind;
    int device;
    size_t nbytes;
    std::string name;
    bool flag;
};

PyObject* runtime_error = nullptr;   // CUDARuntimeError
PyObject* refusal = nullptr;         // the exception for what is not there
PyObject* pointer_attributes = nullptr;

std::vector<Event> events;
bool recording = false, executing = true, in_pool = false;

void record(EventKind kind, int device, size_t nbytes, std::string name = "", bool flag = false) {
    if (recording) events.push_back({kind, device, nbytes, std::move(name), flag});
}

PyObject* fail(int status, const std::string& note = "") {
    PyObject* error = PyObject_CallFunction(runtime_error, "i", status);
    if (!error) return nullptr;
    if (!note.empty()) {
        PyObject* done = PyObject_CallMethod(error, "add_note", "s", note.c_str());
        Py_XDECREF(done);
        if (!done) return nullptr;
    }
    PyErr_SetObject(runtime_error, error);
    Py_DECREF(error);
    return nullptr;
}

PyObject* none() { Py_RETURN_NONE; }

// ---- devices and their memory

constexpr int device_count = 2;
constexpr size_t device_bytes = (size_t)1 << 38, alignment = 512, most_poisoned = (size_t)1 << 26;

thread_local int current_device = 0;

struct Device {
    char* begin = nullptr;
    size_t top = 0;                      // no address above has ever been given out
    std::map<char*, size_t> used, freed; // address to size
    size_t bytes_used = 0;

    bool reserve() {
        if (begin) return true;
        void* range = mmap(nullptr, device_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) return false;
        begin = static_cast<char*>(range);
        return true;
    }
    char* allocate(size_t nbytes) {
        if (!reserve()) return nullptr;
        nbytes = (nbytes + alignment - 1) / alignment * alignment;
        char* address = nullptr;
        for (auto hole = freed.begin(); hole != freed.end(); ++hole) {
            if (hole->second < nbytes) continue;
            address = hole->first;
            const size_t rest = hole->second - nbytes;
            freed.erase(hole);
            if (rest) freed[address + nbytes] = rest;
            break;
        }
        if (!address) {
            if (nbytes > device_bytes - top) return nullptr;
            address = begin + top;
            top += nbytes;
        }
        used[address] = nbytes;
        bytes_used += nbytes;
        return address;
    }
    bool release(char* address) {
        auto block = used.find(address);
        if (block == used.end()) return false;
        size_t nbytes = block->second;
        bytes_used -= nbytes;
        used.erase(block);
        if (nbytes >= most_poisoned) madvise(address, nbytes / 4096 * 4096, MADV_DONTNEED);
        auto after = freed.lower_bound(address);
        if (after != freed.end() && after->first == address + nbytes) {
            nbytes += after->second;
            after = freed.erase(after);
        }
        if (after != freed.begin()) {
            auto before = std::prev(after);
            if (before->first + before->second == address) {
                address = before->first;
                nbytes += before->second;
            }
        }
        freed[address] = nbytes;
        return true;
    }
    bool owns(const char* address) const { return begin && address >= begin && address < begin + device_bytes; }
    bool holds(char* address, size_t nbytes) const {
        auto block = used.upper_bound(address);
        if (block == used.begin()) return false;
        --block;
        return address + nbytes <= block->first + block->second;
    }
};

Device devices[device_count];
std::map<char*, size_t> pinned;

int device_of(intptr_t address) {
    for (int i = 0; i < device_count; ++i)
        if (devices[i].owns(reinterpret_cast<char*>(address))) return i;
    return -1;
}

bool is_pinned(intptr_t address, size_t nbytes) {
    char* place = reinterpret_cast<char*>(address);
    auto block = pinned.upper_bound(place);
    if (block == pinned.begin()) return false;
    --block;
    return place + nbytes <= block->first + block->second;
}

// ---- streams, events, graphs

using Work = std::function<PyObject*()>;
struct Graph {
    std::vector<Work> nodes;
};
struct Stream {
    int device;
    unsigned flags;
    int priority;
    std::unique_ptr<Graph> capture;
    bool invalidated = false;
};
struct Mark {
    int device;
    bool recorded = false, captured = false;
    std::chrono::steady_clock::time_point time;
};

constexpr unsigned non_blocking = 1;
std::map<intptr_t, Stream> streams;
std::map<intptr_t, Mark> marks;
std::map<intptr_t, std::unique_ptr<Graph>> graphs;
intptr_t next_handle = 0x10000;

intptr_t new_handle() { return next_handle += 16; }

// The null, the legacy and the per-thread default stream have no entry: they are of every device.
bool is_default(intptr_t stream) { return stream >= 0 && stream <= 2; }

Stream* stream_at(intptr_t handle) {
    auto found = streams.find(handle);
    return found == streams.end() ? nullptr : &found->second;
}

bool any_capture() {
    for (auto& entry : streams)
        if (entry.second.capture) return true;
    return false;
}

// Work on the legacy stream would have to wait for the blocking streams, which a capture cannot record.
bool legacy_is_free(bool invalidate = true) {
    bool is_free = true;
    for (auto& entry : streams) {
        if (!entry.second.capture || entry.second.flags & non_blocking) continue;
        if (invalidate) entry.second.invalidated = true;
        is_free = false;
    }
    if (!is_free) fail(capture_implicit);
    return is_free;
}

// Does work on a stream, or adds it to the graph that the stream captures.
PyObject* enqueue(intptr_t handle, Work work) {
    if (is_default(handle)) return handle == 2 || legacy_is_free() ? work() : nullptr;
    Stream* stream = stream_at(handle);
    if (!stream || stream->device != current_device)
        return fail(invalid_resource_handle, "the stream is not of the current device, or it was destroyed");
    if (stream->capture) {
        if (stream->invalidated) return fail(capture_invalidated);
        stream->capture->nodes.push_back(std::move(work));
        return none();
    }
    return work();
}

PyObject* synchronize(Stream* stream) {
    if (stream && stream->capture) {
        stream->invalidated = true;
        return fail(capture_unsupported);
    }
    record(synchronize_event, current_device, 0);
    return none();
}

// ---- copies

PyObject* copy_2d(intptr_t target, size_t target_pitch, intptr_t source, size_t source_pitch, size_t width, size_t height,
                  int kind, bool async) {
    if (!width || !height) return none();
    if (target_pitch < width || source_pitch < width) return fail(invalid_value, "a pitch is less than the width");
    const size_t target_span = target_pitch * (height - 1) + width, source_span = source_pitch * (height - 1) + width;
    const int to = device_of(target), from = device_of(source);
    char *t = reinterpret_cast<char*>(target), *s = reinterpret_cast<char*>(source);
    if (to >= 0 && !devices[to].holds(t, target_span)) return fail(invalid_value, "the target is outside its allocation");
    if (from >= 0 && !devices[from].holds(s, source_span)) return fail(invalid_value, "the source is outside its allocation");
    const int found = (from >= 0 ? 2 : 0) | (to >= 0 ? 1 : 0);
    if (kind != inferred && kind != found) return fail(invalid_value, "the kind of the copy does not fit its addresses");
    const size_t nbytes = width * height;
    if (found == host_to_device) record(upload_event, to, nbytes, "", is_pinned(source, source_span));
    if (found == device_to_host) record(download_event, from, nbytes, "", is_pinned(target, target_span));
    if (found == device_to_device) record(to == from ? copy_event : peer_copy_event, to, nbytes);
    if (async && !executing) return none();
    if (width == target_pitch && width == source_pitch) std::memmove(t, s, nbytes);
    else for (size_t row = 0; row < height; ++row) std::memmove(t + row * target_pitch, s + row * source_pitch, width);
    return none();
}

PyObject* fill(intptr_t target, int value, size_t nbytes, bool async) {
    if (!nbytes) return none();
    const int device = device_of(target);
    if (device < 0 || !devices[device].holds(reinterpret_cast<char*>(target), nbytes))
        return fail(invalid_value, "what is to be filled is not within an allocation");
    record(fill_event, device, nbytes);
    if (executing || !async) std::memset(reinterpret_cast<char*>(target), value, nbytes);
    return none();
}

// ---- kernels

struct Kernel {
    std::string name;
    int device;
    void (*run)(void** parameters, const unsigned* shape);
    std::vector<size_t> sizes;
};
struct Module {
    int device;
    void* library;
    std::vector<std::unique_ptr<Kernel>> kernels;
};

constexpr int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
sigjmp_buf before_kernel;
const void* fault_address = nullptr;

void on_fault(int signal, siginfo_t* info, void*) {
    fault_address = info->si_addr;
    siglongjmp(before_kernel, signal);
}

// Makes the memory of all devices but one untouchable, and touchable again.
void fence(int device, int protection) {
    for (int i = 0; i < device_count; ++i)
        if (i != device && devices[i].bytes_used) mprotect(devices[i].begin, (devices[i].top + 4095) / 4096 * 4096, protection);
}

PyObject* run_kernel(const Kernel& kernel, void** parameters, const unsigned* shape) {
    size_t nbytes = 0;
    for (size_t size : kernel.sizes) nbytes += size;
    record(launch_event, kernel.device, nbytes, kernel.name);
    if (!executing) return none();
    struct sigaction ours = {}, before[std::size(faults)];
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO;
    for (size_t i = 0; i < std::size(faults); ++i) sigaction(faults[i], &ours, &before[i]);
    fence(kernel.device, PROT_NONE);
    const int signal = sigsetjmp(before_kernel, 1);
    if (!signal) kernel.run(parameters, shape);
    fence(kernel.device, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < std::size(faults); ++i) sigaction(faults[i], &before[i], nullptr);
    const std::string where = "in kernel " + kernel.name + " on device " + std::to_string(kernel.device);
    if (!signal) return none();
    if (signal == SIGFPE) return fail(launch_failure, where + ": an integer division by zero");
    if (signal == SIGILL) return fail(misaligned_address, where + ": a misaligned pointer was used");
    char address[32];
    std::snprintf(address, sizeof address, "%p", fault_address);
    const int owner = device_of(reinterpret_cast<intptr_t>(fault_address));
    return fail(illegal_address, where + ": address " + address + (owner < 0 ? " is not of a device" : " is of device " + std::to_string(owner)));
}

struct Optional {
    int given;
    int value;
};

}  // namespace

extern "C" {

// ---- for Python

void host_set_classes(PyObject* error, PyObject* refused, PyObject* attributes) {
    Py_INCREF(runtime_error = error);
    Py_INCREF(refusal = refused);
    Py_INCREF(pointer_attributes = attributes);
}
void host_set_recording(int value) { recording = value; }
void host_set_executing(int value) { executing = value; }
void host_set_in_pool(int value) { in_pool = value; }
void host_poison(intptr_t address, size_t nbytes) {
    if (nbytes <= most_poisoned && executing) std::memset(reinterpret_cast<void*>(address), 0xA5, nbytes);
}
PyObject* host_take_events() {
    PyObject* list = PyList_New(0);
    for (const Event& event : events) {
        PyObject* entry = Py_BuildValue("(iinsN)", (int)event.kind, event.device, (Py_ssize_t)event.nbytes, event.name.c_str(), PyBool_FromLong(event.flag));
        if (!list || !entry || PyList_Append(list, entry)) return nullptr;
        Py_DECREF(entry);
    }
    events.clear();
    return list;
}
int host_device_of(intptr_t address) { return device_of(address); }
void host_refuse(const char* entry_point) {
    PyErr_Format(refusal, "CuPy on the host does not have %s", entry_point);
}

// ---- runtime: devices

PyObject* runtime__ensure_context() { return none(); }
int runtime_getDevice(int) { return current_device; }
int runtime_getDeviceCount(int) { return device_count; }
PyObject* runtime_setDevice(int device, int) {
    if (device < 0 || device >= device_count) return fail(invalid_device);
    current_device = device;
    return none();
}
int runtime_driverGetVersion(int) { return HOST_CUDA_VERSION; }
int runtime_runtimeGetVersion(int) { return HOST_CUDA_VERSION; }
int runtime__getCUDAMajorVersion(int) { return HOST_CUDA_VERSION / 1000; }
int runtime_deviceCanAccessPeer(int, int, int) { return 0; }
int runtime_deviceGetAttribute(int attribute, int device, int) {
    // An H200: what CuPy and its users ask for.
    static const std::map<int, int> attributes = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536}, {10, 32},
        {12, 65536}, {16, 132}, {31, 1}, {38, 62914560}, {39, 2048}, {41, 1}, {75, 9}, {76, 0}, {81, 233472}, {82, 65536},
        {83, 0}, {88, 0}, {89, 0}, {95, 0}, {97, 232448}, {106, 32}, {115, 0},
    };
    auto found = attributes.find(attribute);
    if (device < 0 || device >= device_count) return fail(invalid_device), -1;
    if (found == attributes.end()) return fail(invalid_value), -1;
    return found->second;
}
PyObject* runtime_getDeviceProperties(int device, int) {
    if (device < 0 || device >= device_count) return fail(invalid_device);
    return Py_BuildValue("{sysnsisisisi}", "name", "CuPy on the host", "totalGlobalMem", (Py_ssize_t)device_bytes, "major", 9,
                         "minor", 0, "warpSize", 32, "multiProcessorCount", 132);
}
PyObject* runtime_deviceSynchronize(int) {
    if (any_capture()) return fail(capture_unsupported);
    return synchronize(nullptr);
}

// ---- runtime: memory

PyObject* runtime_memGetInfo(int) {
    return Py_BuildValue("(nn)", (Py_ssize_t)(device_bytes - devices[current_device].bytes_used), (Py_ssize_t)device_bytes);
}
intptr_t runtime_malloc(size_t nbytes, int) {
    char* address = devices[current_device].allocate(nbytes ? nbytes : 1);
    if (!address) return fail(memory_allocation), 0;
    record(malloc_event, current_device, nbytes, "", in_pool);
    host_poison(reinterpret_cast<intptr_t>(address), nbytes);
    return reinterpret_cast<intptr_t>(address);
}
PyObject* runtime_free(intptr_t address, int) {
    const int device = device_of(address);
    if (address && (device < 0 || !devices[device].release(reinterpret_cast<char*>(address))))
        return fail(invalid_value, "there is no allocation at this address");
    return none();
}
intptr_t runtime_hostAlloc(size_t nbytes, unsigned, int) {
    char* address = static_cast<char*>(std::aligned_alloc(alignment, (nbytes + alignment) / alignment * alignment));
    if (!address) return fail(memory_allocation), 0;
    pinned[address] = nbytes;
    return reinterpret_cast<intptr_t>(address);
}
PyObject* runtime_freeHost(intptr_t address, int) {
    if (!pinned.erase(reinterpret_cast<char*>(address))) return fail(invalid_value);
    std::free(reinterpret_cast<void*>(address));
    return none();
}
PyObject* runtime_memcpy(intptr_t target, intptr_t source, size_t nbytes, int kind, int) {
    return legacy_is_free() ? copy_2d(target, nbytes, source, nbytes, nbytes, 1, kind, false) : nullptr;
}
PyObject* runtime_memcpyAsync(intptr_t target, intptr_t source, size_t nbytes, int kind, intptr_t stream, int) {
    return enqueue(stream, [=] { return copy_2d(target, nbytes, source, nbytes, nbytes, 1, kind, true); });
}
PyObject* runtime_memcpy2D(intptr_t target, size_t target_pitch, intptr_t source, size_t source_pitch, size_t width,
                           size_t height, int kind, int) {
    return legacy_is_free() ? copy_2d(target, target_pitch, source, source_pitch, width, height, kind, false) : nullptr;
}
PyObject* runtime_memcpy2DAsync(intptr_t target, size_t target_pitch, intptr_t source, size_t source_pitch, size_t width,
                                size_t height, int kind, intptr_t stream, int) {
    return enqueue(stream, [=] { return copy_2d(target, target_pitch, source, source_pitch, width, height, kind, true); });
}
PyObject* runtime_memset(intptr_t target, int value, size_t nbytes, int) {
    return legacy_is_free() ? fill(target, value, nbytes, false) : nullptr;
}
PyObject* runtime_memsetAsync(intptr_t target, int value, size_t nbytes, intptr_t stream, int) {
    return enqueue(stream, [=] { return fill(target, value, nbytes, true); });
}
int runtime_pointerGetMemoryType(intptr_t address, int) { return device_of(address) >= 0 ? 2 : is_pinned(address, 1) ? 1 : 0; }
PyObject* runtime_pointerGetAttributes(intptr_t address, int) {
    const int device = device_of(address), type = runtime_pointerGetMemoryType(address, 0);
    return PyObject_CallFunction(pointer_attributes, "inni", device >= 0 ? device : type == 1 ? current_device : -2,
                                 (Py_ssize_t)(type ? address : 0), (Py_ssize_t)(device >= 0 ? 0 : address), type);
}

// ---- runtime: streams

intptr_t runtime_streamCreateWithPriority(unsigned flags, int priority, int) {
    const intptr_t handle = new_handle();
    streams[handle] = {current_device, flags, priority, nullptr};
    return handle;
}
intptr_t runtime_streamCreateWithFlags(unsigned flags, int) { return runtime_streamCreateWithPriority(flags, 0, 0); }
intptr_t runtime_streamCreate(int) { return runtime_streamCreateWithPriority(0, 0, 0); }
PyObject* runtime_streamDestroy(intptr_t handle, int) {
    return streams.erase(handle) ? none() : fail(invalid_resource_handle);
}
PyObject* runtime_streamSynchronize(intptr_t handle, int) {
    if (is_default(handle)) return handle == 2 || legacy_is_free() ? synchronize(nullptr) : nullptr;
    Stream* stream = stream_at(handle);
    return stream ? synchronize(stream) : fail(invalid_resource_handle);
}
PyObject* runtime_streamQuery(intptr_t handle, int) {
    Stream* stream = stream_at(handle);
    if (!stream && !is_default(handle)) return fail(invalid_resource_handle);
    if (stream && stream->capture) {
        stream->invalidated = true;
        return fail(capture_unsupported);
    }
    return PyLong_FromLong(0);
}
unsigned runtime_streamGetFlags(intptr_t handle, int) {
    Stream* stream = stream_at(handle);
    if (!stream && !is_default(handle)) return fail(invalid_resource_handle), 0;
    return stream ? stream->flags : 0;
}
int runtime_streamGetPriority(intptr_t handle, int) {
    Stream* stream = stream_at(handle);
    if (!stream && !is_default(handle)) return fail(invalid_resource_handle), 0;
    return stream ? stream->priority : 0;
}
PyObject* runtime_streamWaitEvent(intptr_t stream, intptr_t event, int, void*) {
    auto mark = marks.find(event);
    if (mark == marks.end()) return fail(invalid_resource_handle);
    if (mark->second.captured) return host_refuse("streams that join a capture"), nullptr;
    return enqueue(stream, none);
}

// ---- runtime: events

intptr_t runtime_eventCreateWithFlags(unsigned, int) {
    const intptr_t handle = new_handle();
    marks[handle] = {current_device};
    return handle;
}
intptr_t runtime_eventCreate(int) { return runtime_eventCreateWithFlags(0, 0); }
PyObject* runtime_eventDestroy(intptr_t event, int) { return marks.erase(event) ? none() : fail(invalid_resource_handle); }
PyObject* runtime_eventRecord(intptr_t event, intptr_t stream, int) {
    auto mark = marks.find(event);
    if (mark == marks.end() || mark->second.device != current_device)
        return fail(invalid_resource_handle, "the event is not of the current device, or it was destroyed");
    Stream* capturing = stream_at(stream);
    mark->second.recorded = true;
    mark->second.captured = capturing && capturing->capture;
    mark->second.time = std::chrono::steady_clock::now();
    return enqueue(stream, none);
}
PyObject* runtime_eventSynchronize(intptr_t event, int) {
    auto mark = marks.find(event);
    if (mark == marks.end()) return fail(invalid_resource_handle);
    if (mark->second.captured) return fail(captured_event);
    return synchronize(nullptr);
}
PyObject* runtime_eventQuery(intptr_t event, int) {
    auto mark = marks.find(event);
    if (mark == marks.end()) return fail(invalid_resource_handle);
    if (mark->second.captured) return fail(captured_event);
    return PyLong_FromLong(0);
}
float runtime_eventElapsedTime(intptr_t first, intptr_t second, int) {
    auto from = marks.find(first), to = marks.find(second);
    if (from == marks.end() || to == marks.end() || !from->second.recorded || !to->second.recorded)
        return fail(invalid_resource_handle), 0;
    return std::chrono::duration<float, std::milli>(to->second.time - from->second.time).count();
}

// ---- runtime: graphs

PyObject* runtime_streamBeginCapture(intptr_t handle, int, Optional*) {
    if (is_default(handle)) return fail(capture_unsupported);
    Stream* stream = stream_at(handle);
    if (!stream) return fail(invalid_resource_handle);
    if (stream->capture) return fail(invalid_value);
    stream->capture = std::make_unique<Graph>();
    stream->invalidated = false;
    return none();
}
int runtime_streamIsCapturing(intptr_t handle, int) {
    if (is_default(handle)) return handle == 2 || legacy_is_free(false) ? 0 : -1;
    Stream* stream = stream_at(handle);
    if (!stream) return fail(invalid_resource_handle), -1;
    if (stream->capture && stream->invalidated) return fail(capture_invalidated), -1;
    return stream->capture != nullptr;
}
intptr_t runtime_streamEndCapture(intptr_t handle, int) {
    Stream* stream = stream_at(handle);
    if (!stream || !stream->capture) return fail(invalid_value), 0;
    std::unique_ptr<Graph> graph = std::move(stream->capture);
    if (stream->invalidated) return fail(capture_invalidated), 0;
    const intptr_t made = new_handle();
    graphs[made] = std::move(graph);
    return made;
}
intptr_t runtime_graphInstantiate(intptr_t graph, int) {
    auto found = graphs.find(graph);
    if (found == graphs.end()) return fail(invalid_value), 0;
    const intptr_t made = new_handle();
    graphs[made] = std::make_unique<Graph>(*found->second);
    return made;
}
PyObject* runtime_graphDestroy(intptr_t graph, int) { return graphs.erase(graph) ? none() : fail(invalid_value); }
PyObject* runtime_graphExecDestroy(intptr_t graph, int) { return graphs.erase(graph) ? none() : fail(invalid_value); }
PyObject* runtime_graphUpload(intptr_t, intptr_t, int) { return none(); }
PyObject* runtime_graphLaunch(intptr_t handle, intptr_t stream, int) {
    auto found = graphs.find(handle);
    if (found == graphs.end()) return fail(invalid_value);
    std::vector<Work>& nodes = found->second->nodes;
    return enqueue(stream, [&nodes]() -> PyObject* {
        for (auto& node : nodes) {
            PyObject* done = node();
            if (!done) return nullptr;
            Py_DECREF(done);
        }
        return none();
    });
}

// ---- driver

intptr_t driver_ctxGetCurrent(int) { return 0x100 + current_device; }
PyObject* driver_ctxSetCurrent(intptr_t context, int) { return runtime_setDevice((int)(context - 0x100), 0); }
int driver_ctxGetDevice(int) { return current_device; }
intptr_t driver_streamGetCtx(intptr_t handle, int) {
    Stream* stream = stream_at(handle);
    return 0x100 + (stream ? stream->device : current_device);
}
intptr_t driver_moduleLoadData(PyObject* path, int) {
    const char* name = PyBytes_AsString(path);
    void* library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, dlerror());
        return 0;
    }
    return reinterpret_cast<intptr_t>(new Module{current_device, library, {}});
}
PyObject* driver_moduleUnload(intptr_t, int) { return none(); }  // a graph may still hold its kernels
intptr_t driver_moduleGetFunction(intptr_t handle, PyObject* name, int) {
    Module* module = reinterpret_cast<Module*>(handle);
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return 0;
    const auto symbol = [&](const char* prefix) { return dlsym(module->library, (std::string(prefix) + text).c_str()); };
    const auto run = reinterpret_cast<void (*)(void**, const unsigned*)>(symbol("host_run_"));
    if (!run) return fail(not_found, std::string("there is no kernel ") + text), 0;
    auto kernel = std::make_unique<Kernel>(Kernel{text, module->device, run, {}});
    kernel->sizes.resize(reinterpret_cast<size_t (*)()>(symbol("host_count_"))());
    reinterpret_cast<void (*)(size_t*)>(symbol("host_sizes_"))(kernel->sizes.data());
    module->kernels.push_back(std::move(kernel));
    return reinterpret_cast<intptr_t>(module->kernels.back().get());
}
int driver_funcGetAttribute(int attribute, intptr_t, int) {
    // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK and CU_FUNC_ATTRIBUTE_BINARY_VERSION; nothing is known of the others.
    if (attribute == 0) return 1024;
    if (attribute == 6) return 90;
    return host_refuse("this attribute of kernels"), -1;
}
int driver_occupancyMaxActiveBlocksPerMultiprocessor(intptr_t, int, size_t, int) { return 8; }
PyObject* driver_launchKernel(intptr_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, intptr_t stream,
                              intptr_t parameters, intptr_t, int) {
    const Kernel* kernel = reinterpret_cast<const Kernel*>(function);
    if (kernel->device != current_device)
        return fail(invalid_resource_handle, "kernel " + kernel->name + " was loaded on device " + std::to_string(kernel->device) +
                                                 " and launched on device " + std::to_string(current_device));
    if (shared_bytes) return host_refuse("shared memory that is sized at the launch"), nullptr;
    if (!grid_x || !grid_y || !grid_z || grid_x > 2147483647u || grid_y > 65535 || grid_z > 65535 || !block_x || !block_y ||
        !block_z || block_x > 1024 || block_y > 1024 || block_z > 64 || (size_t)block_x * block_y * block_z > 1024)
        return fail(invalid_configuration);
    const std::vector<unsigned> shape = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
    void** values = reinterpret_cast<void**>(parameters);
    Stream* capturing = stream_at(stream);
    if (!(capturing && capturing->capture))
        return enqueue(stream, [&] { return run_kernel(*kernel, values, shape.data()); });
    // The graph keeps the values of the parameters; pointers in them point to what is there when it is launched.
    auto kept = std::make_shared<std::vector<std::vector<char>>>();
    for (size_t i = 0; i < kernel->sizes.size(); ++i) {
        const char* value = static_cast<const char*>(values[i]);
        kept->emplace_back(value, value + kernel->sizes[i]);
    }
    return enqueue(stream, [kernel, kept, shape] {
        std::vector<void*> places;
        for (auto& value : *kept) places.push_back(value.data());
        return run_kernel(*kernel, places.data(), shape.data());
    });
}

}  // extern "C"
