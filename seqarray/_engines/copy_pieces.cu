// Copies between a matrix of bytes and the pieces that its columns are cut into: concat, stack and split in one launch.
//
// The matrix has rows of `pitch` bytes, which lie `matrix_stride` bytes apart.  Piece i owns some of its columns and is
// itself a matrix with as many rows, at an address and with a row stride of its own.  Gathering (concat, stack) fills
// the matrix from the pieces, scattering (split) fills the pieces from the matrix.
//
// The bytes of the matrix, row after row, are cut into tiles, one for each block.  So every block has as much to do as
// the others however ragged the pieces are, accesses to the matrix are always coalesced, and narrow neighbours in a row
// are handled together.  Bytes are moved in vectors, of the widest size that divides every address, bound and stride.
//
// Threads do not communicate, so nothing here depends on the size of a warp.

// Variants, chosen by the launcher.
#ifndef VECTOR_BYTES  // 16, 8, 4, 2 or 1
#define VECTOR_BYTES 16
#endif
#ifndef SCATTER  // 1: pieces <- matrix, 0: matrix <- pieces
#define SCATTER 0
#endif
#ifndef LAYOUT  // layout of the pieces, see below
#define LAYOUT 2
#endif
#ifndef TABLE_BYTES  // size of the table in the arguments of the kernel; 0: it is in global memory
#define TABLE_BYTES 4040
#endif
#ifndef WIDE  // 1: a row has so many bytes that columns need 64 bits
#define WIDE 0
#endif
#ifndef BLOCK_THREADS
#define BLOCK_THREADS 256
#endif

// Values of LAYOUT.
#define UNIFORM_LAYOUT 0  // equal widths, and addresses at equal distances: there is no table
#define EQUAL_LAYOUT 1    // equal widths
#define RAGGED_LAYOUT 2

// A thread has 64 bytes on the way where it can: enough of them are needed to hide the latency of the memory.
#define VECTORS_PER_THREAD (VECTOR_BYTES >= 4 ? 64 / VECTOR_BYTES : 16)
// Across boundaries, where every vector has addresses of its own, more than this many would take too many registers.
#define VECTORS_PER_BATCH 4
// Bytes from a vector of a thread to its next one: the threads of a block lie side by side.
#define THREAD_STEP (BLOCK_THREADS * VECTOR_BYTES)
// Even the smallest tile, of 4 KiB, reaches 8 TiB with the 2^31 - 1 blocks of a grid.
#define TILE_BYTES (VECTORS_PER_THREAD * THREAD_STEP)

typedef unsigned int uint32;
typedef unsigned long long uint64;

#if WIDE
typedef uint64 Column;
#else
typedef uint32 Column;
#endif

#if VECTOR_BYTES == 16
typedef uint4 Vector;
#elif VECTOR_BYTES == 8
typedef uint2 Vector;
#elif VECTOR_BYTES == 4
typedef unsigned int Vector;
#elif VECTOR_BYTES == 2
typedef unsigned short Vector;
#else
typedef unsigned char Vector;
#endif

// The launcher packs these structures byte by byte.
struct Header {
  uint64 matrix;         // address
  uint64 matrix_stride;  // bytes from one row of the matrix to the next
  uint64 pitch;          // bytes of a row that are copied: the widths of all pieces
  uint64 total;          // bytes that are copied: rows * pitch
  uint64 width;          // of every piece (but the last may be narrower); unused if ragged
  uint64 table;          // address of the table, if it is in global memory
  uint32 count;          // of pieces that have an entry in the table
  uint32 has_strides;    // the table has row strides; without them pieces are contiguous
};

struct Arguments {
  Header header;
#if LAYOUT == UNIFORM_LAYOUT
  uint64 first;        // address of the first piece
  uint64 step;         // bytes from one piece to the next
  uint64 stride;       // bytes from one row of a piece to the next
  uint64 last_stride;  // the same for the last piece, which may be narrower
#elif TABLE_BYTES
  uint64 table[TABLE_BYTES / 8];
#endif
};

// The table, wherever it is: address of every piece, then their row strides if there are any, then, if they are ragged,
// the columns where they start and the one where the last stops.
struct Table {
  const uint64* addresses;
  const uint64* strides;
  const Column* bounds;
};

struct Piece {
  uint64 address;
  uint64 stride;
  Column start;
  Column stop;
};

// Kernel arguments that are indexed are copied to local memory, unless they are declared so (from Volta on).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define IN_PLACE
#else
#define IN_PLACE __grid_constant__
#endif

// All accesses to global memory.  A build for the CPU may put checked functions in place of these.
#ifndef CHECKED_ACCESS
#ifdef __CUDA_ARCH__
// The memory that the kernel reads is not written during the launch.
#define LOAD(pointer) __ldg(pointer)
// Addresses are passed as integers, so the compiler cannot infer that they are global.
#define TARGET(address) __cvta_global_to_generic(address)
#else
#define LOAD(pointer) (*(pointer))
#define TARGET(address) (address)
#endif
__device__ __forceinline__ Vector load_vector(uint64 address) { return LOAD((const Vector*)address); }
__device__ __forceinline__ void store_vector(uint64 address, Vector vector) { *(Vector*)TARGET(address) = vector; }
template <typename Entry>
__device__ __forceinline__ Entry load_global_entry(const Entry* entry) { return LOAD(entry); }
#endif

template <typename Entry>
__device__ __forceinline__ Entry load_entry(const Entry* entry) {
#if TABLE_BYTES
  return *entry;
#else
  return load_global_entry(entry);
#endif
}

__device__ __forceinline__ Table find_table(const Arguments& arguments) {
  Table table = {0, 0, 0};
#if LAYOUT != UNIFORM_LAYOUT
#if TABLE_BYTES
  table.addresses = arguments.table;
#else
  table.addresses = (const uint64*)arguments.header.table;
#endif
  table.strides = table.addresses + arguments.header.count;
  table.bounds = (const Column*)(arguments.header.has_strides ? table.strides + arguments.header.count : table.strides);
#endif
  return table;
}

// The last of the pieces lowest to beyond - 1 that does not start behind a column: the one that owns it, since pieces
// without a column start where the next one does.
__device__ __forceinline__ uint32 search(const Column* bounds, uint32 lowest, uint32 beyond, Column column) {
  while (beyond - lowest > 1) {
    const uint32 middle = lowest + (beyond - lowest) / 2;
    if (load_entry(bounds + middle) <= column)
      lowest = middle;
    else
      beyond = middle;
  }
  return lowest;
}

// The piece that owns a column; if ragged, it is one of lowest to beyond - 1.
__device__ __forceinline__ Piece find_piece(
    const Arguments& arguments, const Table& table, Column column, uint32 lowest, uint32 beyond) {
  const Header& header = arguments.header;
  Piece piece;
#if LAYOUT == RAGGED_LAYOUT
  const uint32 index = search(table.bounds, lowest, beyond, column);
  piece.start = load_entry(table.bounds + index);
  piece.stop = load_entry(table.bounds + index + 1);
#else
  const Column width = (Column)header.width;
  const Column pitch = (Column)header.pitch;
  const Column index = column / width;
  piece.start = index * width;
  piece.stop = pitch - piece.start > width ? piece.start + width : pitch;
#endif
#if LAYOUT == UNIFORM_LAYOUT
  piece.address = arguments.first + index * arguments.step;
  piece.stride = piece.stop == pitch ? arguments.last_stride : arguments.stride;
#else
  piece.address = load_entry(table.addresses + index);
  piece.stride = header.has_strides ? load_entry(table.strides + index) : piece.stop - piece.start;
#endif
  return piece;
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) copy_pieces(const IN_PLACE Arguments arguments) {
  const Header& header = arguments.header;
  const Table table = find_table(arguments);
  const Column pitch = (Column)header.pitch;

  const uint64 tile_start = (uint64)blockIdx.x * TILE_BYTES;
  const uint64 left = header.total - tile_start;
  const uint32 tile_bytes = left < TILE_BYTES ? (uint32)left : TILE_BYTES;
  uint64 row = 0;
  Column column = (Column)tile_start;
  if (header.total > header.pitch) {  // a 64-bit division is slow, and a single row does without
    row = tile_start / header.pitch;
    column = (Column)(tile_start - row * header.pitch);
  }

  // The same for all threads of the block, up to here and in the search.
  const Piece first = find_piece(arguments, table, column, 0, header.count);
  const uint32 thread_start = threadIdx.x * VECTOR_BYTES;

  if (tile_bytes <= first.stop - column) {  // the tile lies in one row of one piece
    const uint64 in_matrix = header.matrix + row * header.matrix_stride + column + thread_start;
    const uint64 in_piece = first.address + row * first.stride + (column - first.start) + thread_start;
    const uint64 source = SCATTER ? in_matrix : in_piece;
    const uint64 target = SCATTER ? in_piece : in_matrix;
    Vector vectors[VECTORS_PER_THREAD];
#pragma unroll
    for (uint32 i = 0; i < VECTORS_PER_THREAD; ++i)
      if (thread_start + i * THREAD_STEP < tile_bytes) vectors[i] = load_vector(source + i * THREAD_STEP);
#pragma unroll
    for (uint32 i = 0; i < VECTORS_PER_THREAD; ++i)
      if (thread_start + i * THREAD_STEP < tile_bytes) store_vector(target + i * THREAD_STEP, vectors[i]);
    return;
  }

  uint32 lowest = 0;
  uint32 beyond = header.count;
#if LAYOUT == RAGGED_LAYOUT
  if (tile_bytes <= pitch - column) {  // the tile lies in one row: only pieces from its first to its last can be met
    lowest = search(table.bounds, lowest, beyond, column);
    beyond = search(table.bounds, lowest, beyond, column + (tile_bytes - 1)) + 1;
  }
#endif
  for (uint32 batch_start = thread_start; batch_start < tile_bytes; batch_start += VECTORS_PER_BATCH * THREAD_STEP) {
    uint64 targets[VECTORS_PER_BATCH];
    Vector vectors[VECTORS_PER_BATCH];
#pragma unroll
    for (uint32 i = 0; i < VECTORS_PER_BATCH; ++i) {
      const uint32 offset = batch_start + i * THREAD_STEP;
      if (offset < tile_bytes) {
        uint64 own_row = row;
        Column own_column = column + offset;
        if (pitch < TILE_BYTES) {
          const uint32 rows = (uint32)own_column / (uint32)pitch;
          own_row += rows;
          own_column -= rows * pitch;
        } else if (own_column >= pitch) {  // in rows that long, a tile meets two at most
          ++own_row;
          own_column -= pitch;
        }
        const Piece piece = find_piece(arguments, table, own_column, lowest, beyond);
        const uint64 in_matrix = header.matrix + own_row * header.matrix_stride + own_column;
        const uint64 in_piece = piece.address + own_row * piece.stride + (own_column - piece.start);
        targets[i] = SCATTER ? in_piece : in_matrix;
        vectors[i] = load_vector(SCATTER ? in_matrix : in_piece);
      }
    }
#pragma unroll
    for (uint32 i = 0; i < VECTORS_PER_BATCH; ++i)
      if (batch_start + i * THREAD_STEP < tile_bytes) store_vector(targets[i], vectors[i]);
  }
}
