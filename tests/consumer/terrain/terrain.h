/* Terrain filters for callers that load a library at run time, here terrain.py. */
#ifndef TERRAIN_H
#define TERRAIN_H

#include <stdint.h>

#define TERRAIN_PUBLIC __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* "cuda", "host" or "emulated". */
TERRAIN_PUBLIC const char* terrain_backend(void);

/* Applies the generated kernel of this name to a grid of f16 bit patterns, row after row without gaps. The
 * sweep runs `sweeps` times, after one that does not count if sweeps > 1; `*seconds` becomes the mean time of
 * one, without the copies. Returns 0, or -1 with terrain_error saying why. */
TERRAIN_PUBLIC int32_t terrain_filter(const char* kernel, int64_t rows, int64_t columns, const uint16_t* in,
                                      uint16_t* out, int32_t sweeps, double* seconds);

/* `steps` time steps of the kernel heat2d_f32, or heat2d_steps_f32 which takes many in a sweep, on a grid of
 * f32, row after row without gaps; `*seconds` becomes the time of all, without the copies. Returns as
 * terrain_filter does. */
TERRAIN_PUBLIC int32_t terrain_diffuse(const char* kernel, int64_t rows, int64_t columns, const float* in,
                                       float* out, int64_t steps, double* seconds);

/* This thread's last failure, in words. */
TERRAIN_PUBLIC const char* terrain_error(void);

#ifdef __cplusplus
}
#endif

#endif /* TERRAIN_H */
