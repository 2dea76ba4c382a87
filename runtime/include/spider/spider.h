/** \file
 * The public interface of generated stencil kernels. C, so that C, C++, Fortran and Python can call it; needs
 * no CUDA header. Every function may be called from any thread. CUDA back end: pointers are device pointers
 * and the calling thread's current device is used. Host and emulated back ends: pointers are host pointers
 * and streams are ignored. */
#ifndef SPIDER_SPIDER_H
#define SPIDER_SPIDER_H

#include <stdint.h>

/** The version of this interface between generated files and the runtime; both check it. */
#define SPIDER_ABI 1

/** Exported from a shared library. */
#if defined(_WIN32)
#define SPIDER_PUBLIC
#else
#define SPIDER_PUBLIC __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The outcome of a call. Values are never renumbered. */
typedef int32_t spider_status;
enum {
  SPIDER_OK = 0,
  SPIDER_ERROR_NULL = 1,        /**< a pointer that must not be null is */
  SPIDER_ERROR_KERNEL = 2,      /**< not a kernel, or one of another ABI or back end */
  SPIDER_ERROR_EXTENT = 3,      /**< an extent out of range, or input and output differ */
  SPIDER_ERROR_STRIDE = 4,      /**< rows or planes, with their halo, would overlap; or over 2^40 */
  SPIDER_ERROR_ALIGNMENT = 5,   /**< data is not aligned to its element type */
  SPIDER_ERROR_OVERLAP = 6,     /**< the input, with its halo, and the output share cells */
  SPIDER_ERROR_STEPS = 7,       /**< negative */
  SPIDER_ERROR_UNSUPPORTED = 8, /**< valid, but this version cannot do it */
  SPIDER_ERROR_DEVICE = 9,      /**< the device cannot run the kernel, or there is none */
  SPIDER_ERROR_MEMORY = 10,     /**< not enough memory */
  SPIDER_ERROR_LAUNCH = 11,     /**< the launch or the copy failed; spider_last_error has the cause */
  SPIDER_ERROR_EMULATION =
      12, /**< emulated back end: the kernel broke a rule of the machine, e.g. an illegal read */
  SPIDER_ERROR_RANKS = 13 /**< distributed: ranks do not agree, or MPI or NCCL failed */
};

/** Values of spider_kernel_info.storage, .output and .accumulate. The last three are whole numbers: sums are
 * rounded to nearest, ties to even, and clamped to the least and the largest. */
enum {
  SPIDER_F16 = 0,
  SPIDER_F32 = 1,
  SPIDER_BF16 = 2,
  SPIDER_F64 = 3,
  SPIDER_U8 = 4,  /**< uint8_t */
  SPIDER_U16 = 5, /**< uint16_t */
  SPIDER_I16 = 6  /**< int16_t */
};

/** Values of spider_kernel_info.backend. */
enum { SPIDER_BACKEND_CUDA = 0, SPIDER_BACKEND_EMULATED = 1, SPIDER_BACKEND_HOST = 2 };

/** Bits of spider_kernel_info.field_uses. */
enum {
  SPIDER_FIELD_READ = 1,    /**< a sweep reads it */
  SPIDER_FIELD_WRITTEN = 2, /**< a sweep writes it */
  /** It needs a second buffer, in spider_sweep.outputs: a stage reads it around the point that it writes. */
  SPIDER_FIELD_TWO_BUFFERS = 4,
  SPIDER_FIELD_RESULT_IN_OUTPUT = 8 /**< a sweep leaves its result there; else in spider_sweep.fields */
};

/** A grid in memory. A stride is ignored where its extent is 1 and the kernel reads no halo along that axis.
 */
typedef struct spider_field {
  void* data;        /**< the first interior element */
  int64_t extent[3]; /**< z, y, x; leading extents are 1 where a dimension is absent */
  int64_t stride[2]; /**< elements from plane to plane, from row to row */
} spider_field;

/** A generated kernel; `heat2d.h` declares `const spider_kernel* heat2d_kernel(void)`. */
typedef struct spider_kernel spider_kernel;

/** Accumulators of a system's reductions over all points (spider/reductions.h). */
typedef struct spider_reductions spider_reductions;

/** Append only. */
typedef struct spider_kernel_info {
  uint32_t size;         /**< of this struct, in bytes */
  uint32_t abi;          /**< SPIDER_ABI of the generator */
  const char* name;      /**< the spec's `stencil` */
  const char* generator; /**< version of spider-gen */
  const char* spec_hash; /**< 16 hexadecimal digits */
  int32_t dimensions;    /**< 1, 2 or 3 */
  int32_t storage;       /**< SPIDER_F16, ... */
  int32_t accumulate;    /**< SPIDER_F32, ... */
  int32_t steps;         /**< time steps that one sweep advances */
  int32_t reach_low[3];  /**< z, y, x: how far the taps of all steps of a sweep go below a point, >= 0 */
  int32_t reach_high[3]; /**< and above it */
  int32_t minimum_arch;  /**< compute capability x 10, e.g. 80 */
  int32_t emulated;      /**< 1 where the linked back end is the emulator */
  int32_t backend;       /**< compiled for: SPIDER_BACKEND_CUDA, ... */
  /* Arguments of spider_run besides input and output; none where all are NULL and 0. */
  const char* previous;            /**< the input one step back, as the spec calls it; NULL: none */
  int32_t field_count;             /**< further fields */
  int32_t scalar_count;            /**< numbers given with each launch */
  const char* const* field_names;  /**< in the order of spider_sweep.fields */
  const int32_t* field_storages;   /**< SPIDER_F16, ... of each; that of `previous` is `storage` */
  const char* const* scalar_names; /**< in the order of spider_sweep.scalars */
  /* For systems of equations, whose fields are all in `field_names`; else 0 and NULL. */
  int32_t launch_count;      /**< kernels that a sweep runs, one after the other; 0: no system */
  const int32_t* field_uses; /**< SPIDER_FIELD_READ, ... of each field */
  const int32_t*
      field_axes; /**< bits 0, 1, 2: has the field cells along z, y, x? Else its extent is 1 there */
  const char* const* reduction_names; /**< names of the reductions (spider/reductions.h) */
  int32_t reduction_count;            /**< how many */
  int32_t output; /**< SPIDER_F16, ... of `out`; where it is not `storage`, a sweep has one step */
} spider_kernel_info;

/** Where fields lie in a larger whole, in cells along z, y, x. The rules act at the faces of the whole. At
 * faces between parts, and where a periodic axis is cut, the cells outside are read from the halo, which the
 * caller has filled: as many as the reach, or up to the whole's face. */
typedef struct spider_part {
  int64_t origin[3]; /**< of the fields' first interior element, counted from that of the whole */
  int64_t whole[3];  /**< extents of the whole */
} spider_part;

/** The arguments of a sweep. Zero it and set `size`. Append only. */
typedef struct spider_sweep {
  uint32_t size;                     /**< sizeof(spider_sweep) */
  const spider_field* in;            /**< read, with its halo */
  const spider_field* out;           /**< written */
  const spider_field* previous;      /**< the input one step back; NULL where the kernel takes none */
  const spider_field* const* fields; /**< further fields as the spec lists them; NULL where there are none */
  const double* scalars;             /**< as the spec lists them; NULL where there are none */
  int64_t offset[3];                 /**< of the box to write, in the fields' interior; z, y, x */
  int64_t extent[3];                 /**< of the box; zeros: all of the interior */
  const spider_part* part;           /**< NULL where the fields are whole */
  void* stream;                      /**< as in spider_apply */
  /** The field for the step before the last one, for sweeps of several steps that take `previous`; else
   * NULL, also where a box or a part takes a single step. */
  const spider_field* out_previous;
  /** Systems only, where `in`, `out`, `previous` and `out_previous` are NULL and `fields` has all fields:
   * the second buffers of fields that need one (spider_kernel_info.field_uses), NULL for the others; NULL if
   * none does. */
  const spider_field* const* outputs;
  /** Systems only: the first of the kernels to run, and how many; 0, 0: all. `fields` and `outputs` are the
   * same for all of them: a launch finds each field in the buffer where earlier launches left it. A box, or a
   * part, of a system of several kernels takes them one by one, each for all boxes before the next. */
  int32_t first_launch;
  int32_t launch_count; /**< see first_launch */
  /** Systems with reductions: the accumulators that the sweep adds its points to; several steps add those of
   * the last one (spider/reductions.h). NULL: none are computed. */
  spider_reductions* reductions;
  /** Images that one call sweeps independently: fields of the same extents and strides; `in`, `out` and the
   * others are the first. 0 or 1: one. An image stride is elements from one first interior element to the
   * next, at least 0, at most 2^40. Images that are written share no cell with any other image, nor with the
   * halo that is read of one. */
  int64_t batch;
  int64_t batch_stride;     /**< of `in`, `previous` and `fields`; also of `out`, where the next one is 0 */
  int64_t out_batch_stride; /**< of `out` and `out_previous`; 0: batch_stride */
  /** For each of `fields`; NULL: batch_stride. A stride of 0: all images read the same field. */
  const int64_t* field_batch_strides;
  /** Memory between passes of the sweep: spider_scratch_bytes, aligned to 128 bytes, where the back end
   * reaches it, apart from all fields. Nothing else uses it until the stream has done the sweep. NULL: the
   * back end allocates it; CUDA does so in stream order. */
  void* scratch;
  uint64_t scratch_bytes; /**< that `scratch` has; 0 where it is NULL */
} spider_sweep;

/** How many bytes of `scratch` spider_run, or spider_run_steps, needs for this sweep; 0 if the kernel has no
 * passes. Scratch for n images lets n images of a 2D batch go through the passes together. Uses extents and
 * strides of the sweep's `in`, whose data may be NULL. */
SPIDER_PUBLIC spider_status spider_scratch_bytes(const spider_kernel* kernel, const spider_sweep* sweep,
                                                 uint64_t* bytes);

/** SPIDER_ABI of the linked runtime. */
SPIDER_PUBLIC int32_t spider_abi_version(void);

/** A kernel's description; NULL where `kernel` is no kernel of this ABI. */
SPIDER_PUBLIC const spider_kernel_info* spider_info(const spider_kernel* kernel);

/** How many cells a sweep over a field of these extents (z, y, x) reads before and after the interior: 0
 * except at faces whose rule is halo. No more than the reach, unless an axis has fewer cells than it and the
 * rule of its other face mirrors an index. For a system, the most that any of its fields needs, second
 * buffers included. */
SPIDER_PUBLIC spider_status spider_halo(const spider_kernel* kernel, const int64_t extent[3], int64_t low[3],
                                        int64_t high[3]);

/** The same for fields that are a part of a whole: includes the halo at faces between parts, and where a
 * periodic axis is cut. NULL for `part`: they are whole. A part that does not lie in the whole is
 * SPIDER_ERROR_EXTENT. */
SPIDER_PUBLIC spider_status spider_halo_of_part(const spider_kernel* kernel, const int64_t extent[3],
                                                const spider_part* part, int64_t low[3], int64_t high[3]);

/** The same for the further fields that an update of whole fields reads: the reach of all steps of a sweep
 * but the first, so nothing where a sweep has one step. For a system as spider_halo. */
SPIDER_PUBLIC spider_status spider_halo_of_fields(const spider_kernel* kernel, const int64_t extent[3],
                                                  int64_t low[3], int64_t high[3]);

/** The same for one field of a system, by its index in spider_kernel_info.field_names: 0 along axes on which
 * it has no cells. `extent` is that of fields with all axes; NULL for `part`: they are whole.
 * SPIDER_ERROR_UNSUPPORTED if the kernel is no system, or has no such field. */
SPIDER_PUBLIC spider_status spider_halo_of_field(const spider_kernel* kernel, int32_t field,
                                                 const int64_t extent[3], const spider_part* part,
                                                 int64_t low[3], int64_t high[3]);

/** Loads the kernel on the current device now: call it before capturing or timing. The other functions do so
 * on first use; after it none of them allocates or synchronises, and all can be captured in a CUDA graph.
 * Each call loads it again, as cudaDeviceReset and a change of contexts make necessary; other functions
 * notice that only when a launch fails, and not during a capture. */
SPIDER_PUBLIC spider_status spider_prepare(const spider_kernel* kernel);

/** One sweep over the interior: out[p] = sum of weight * in[p + offset], repeated for each of the kernel's
 * steps. Never writes `in`, and only the interior of `out`. `stream` is a cudaStream_t or NULL for the legacy
 * default stream, however the caller is compiled. Extents must agree. */
SPIDER_PUBLIC spider_status spider_apply(const spider_kernel* kernel, const spider_field* in,
                                         const spider_field* out, void* stream);

/** The part of a sweep that covers the `extent` points (z, y, x) from `offset` of the interior. Writes only
 * the box, reads only the box and the reach of its taps, and gives the bits of a whole sweep. The fields are
 * whole, and the boundary applies only at their faces. An empty box, or one that is not inside the interior,
 * is SPIDER_ERROR_EXTENT. */
SPIDER_PUBLIC spider_status spider_apply_box(const spider_kernel* kernel, const spider_field* in,
                                             const spider_field* out, const int64_t offset[3],
                                             const int64_t extent[3], void* stream);

/** Takes `steps` time steps, from `a` to `b` and back; `*result` (may be NULL) is the one with the last
 * step. Sweeps of fewer steps take a remainder. The halos of both are read and never written: each sweep
 * reads them as they are. Zero steps give `a`. */
SPIDER_PUBLIC spider_status spider_iterate(const spider_kernel* kernel, const spider_field* a,
                                           const spider_field* b, int64_t steps, void* stream,
                                           const spider_field** result);

/** One sweep; a box or part gets the same bits as in a sweep of the whole. The previous field and further
 * fields have the input's extents. Further fields of a sweep of several steps have a halo
 * (spider_halo_of_fields, and at faces between parts), others none. `out` may be the memory of one of them,
 * with the same data, extents, strides and storage, unless a sweep has several steps; it shares no cell with
 * anything else. A sweep of several steps reads the previous field with the input's halo, and also writes
 * `out_previous`. A missing argument is SPIDER_ERROR_NULL; one that the kernel does not take is
 * SPIDER_ERROR_UNSUPPORTED, as is another size; a part that does not lie in the whole is SPIDER_ERROR_EXTENT.
 * Indices and extents of an update are those of the whole.
 *
 * With a batch: all images, in one launch if the kernel can, otherwise one after the other; box and part are
 * the same for each. A system of equations with a batch is SPIDER_ERROR_UNSUPPORTED.
 *
 * For a system: all its launches, or those that `first_launch` and `launch_count` select. Fields have the
 * same extents, 1 along axes on which they have no cells. No buffer that is written shares a cell with
 * another one, or with the halo read of it; fields that are only read may share memory. A box or a part of
 * several launches is SPIDER_ERROR_UNSUPPORTED, as is a part that cuts an axis along which some fields are
 * periodic and others not. */
SPIDER_PUBLIC spider_status spider_run(const spider_kernel* kernel, const spider_sweep* sweep);

/** Takes `steps` time steps: after each the output becomes the input, the input the previous field, and that
 * the output. If the kernel has no previous field, or `out` is its memory, two fields take turns. With
 * `out_previous` it makes sweeps of several steps: `in` and `previous` take turns with `out` and
 * `out_previous`, all with their halos; in the pair with the last steps, the other field has the step before.
 * Without it a kernel with a previous field takes the steps one by one. `*result` (may be NULL) is the field
 * of the sweep with the last step: `in` after none. With several steps no further field may be the memory of
 * an output. A box or a part takes at most the steps of one sweep, the kernel's or fewer: the cells around it
 * are those of the first step.
 *
 * For a system `*result` is NULL. A step reads each field from the buffer where the step before left it.
 * After an odd number of steps, fields with SPIDER_FIELD_RESULT_IN_OUTPUT are in `outputs`; after an even
 * number in `fields`, where all other fields always are. Both have the halo that is read. A box, a part or
 * some of the launches take one step. */
SPIDER_PUBLIC spider_status spider_run_steps(const spider_kernel* kernel, const spider_sweep* sweep,
                                             int64_t steps, const spider_field** result);

/** A constant string for any value. */
SPIDER_PUBLIC const char* spider_status_string(spider_status status);

/** This thread's last failure, in words; empty before the first. Valid until the thread's next failing call.
 */
SPIDER_PUBLIC const char* spider_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_SPIDER_H */
