#pragma once

/// What NVIDIA's GPUs of compute capability 8.0 and later have in common (CUDA C++ Programming Guide,
/// "Compute Capabilities", technical specifications), and what sm_90 has, which plans are made for.
namespace spidergen::plan {

inline constexpr int word_bytes = 4;     ///< a register; a bank of shared memory
inline constexpr int vector_bytes = 16;  ///< the most that a lane loads, stores or copies at once
inline constexpr int sector_bytes = 32;  ///< what the L2 cache moves
inline constexpr int line_bytes = 128;   ///< four of them; all banks of shared memory

inline constexpr int threads_per_warp = 32;
inline constexpr int registers_per_multiprocessor = 65536;  ///< of 32 bits
inline constexpr int largest_register_count = 255;          ///< of a thread

/// Shared memory that all of them grant a block: 8.6, 8.9 and 12.0 no more.
inline constexpr int least_block_shared_bytes = 99 * 1024;

/// Of a multiprocessor of sm_90; and what each of its blocks takes beside its own.
inline constexpr int shared_per_multiprocessor = 228 * 1024;
inline constexpr int reserved_per_block = 1024;

}  // namespace spidergen::plan
