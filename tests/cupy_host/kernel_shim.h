// What the copy kernel needs to be compiled as C++ for the CPU.  Threads run one after another, and every access to
// memory is checked: for alignment, which an x86 processor would forgive, for lying in one allocation to the byte, and
// for being the first to write there.
#include <cstdint>
#include <cstring>

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct Index {
  uint32_t x;
};
static Index blockIdx, threadIdx;

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(threads)
#define CHECKED_ACCESS

// The memory of the device, and what was found out about the accesses to it; shared with Python.
struct Memory {
  const uint64_t* starts;  // of the allocations, rising
  const uint64_t* stops;
  uint64_t allocations;
  uint64_t base;     // address of the byte that written[0] stands for
  uint8_t* written;  // how often each byte has been written
  uint64_t misaligned;
  uint64_t outside;
  uint64_t overwritten;
  uint64_t stored_bytes;
  uint64_t last_found;  // the allocation of the last access: the next one is mostly there too
};
static Memory* memory;

static bool is_allocated(uint64_t address, uint64_t nbytes) {
  uint64_t found = memory->last_found;
  if (found >= memory->allocations || address < memory->starts[found] || address >= memory->stops[found]) {
    uint64_t lowest = 0, beyond = memory->allocations;
    while (lowest < beyond) {
      const uint64_t middle = (lowest + beyond) / 2;
      if (memory->stops[middle] <= address)
        lowest = middle + 1;
      else
        beyond = middle;
    }
    found = memory->last_found = lowest;
  }
  return found < memory->allocations && address >= memory->starts[found] && nbytes <= memory->stops[found] - address;
}

// Whether an access may be made; if not, it is counted and left out.
static bool is_allowed(uint64_t address, uint64_t nbytes) {
  if (!is_allocated(address, nbytes)) {
    ++memory->outside;
    return false;
  }
  memory->misaligned += address % nbytes != 0;
  return true;
}

template <typename Value>
static Value checked_load(uint64_t address) {
  Value value = {};
  if (is_allowed(address, sizeof(Value))) memcpy(&value, (const void*)address, sizeof(Value));
  return value;
}

template <typename Value>
static void checked_store(uint64_t address, Value value) {
  if (!is_allowed(address, sizeof(Value))) return;
  memcpy((void*)address, &value, sizeof(Value));
  memory->stored_bytes += sizeof(Value);
  for (uint64_t i = 0; i < sizeof(Value); ++i) memory->overwritten += memory->written[address - memory->base + i]++ > 0;
}

#define load_vector checked_load<Vector>
#define store_vector checked_store<Vector>
template <typename Entry>
static Entry load_global_entry(const Entry* entry) {
  return checked_load<Entry>((uint64_t)entry);
}

// Defines the function that Python calls.  It runs some blocks of a grid, and returns how large the arguments are.
#define DEFINE_RUN(name)                                                                                        \
  extern "C" uint64_t run_##name(const Arguments* arguments, const uint32_t* blocks, uint64_t count, Memory* with) { \
    memory = with;                                                                                              \
    for (uint64_t i = 0; i < count; ++i)                                                                        \
      for (uint32_t thread = 0; thread < BLOCK_THREADS; ++thread) {                                             \
        blockIdx.x = blocks[i];                                                                                 \
        threadIdx.x = thread;                                                                                   \
        copy_pieces(*arguments);                                                                                \
      }                                                                                                         \
    return sizeof(Arguments);                                                                                   \
  }
