/** \file
 * Fields on the ranks of an MPI communicator: each holds a part of a whole field, with a halo that exchanges
 * fill. C. Every function with a grid is collective: all ranks of its communicator call it, with arguments
 * that mean the same, and all get the same status; spider_last_error says which rank it came from. MPI starts
 * and ends with the caller, and must allow the calls of the threads that make them. Between GPUs of a host
 * that reach each other's memory halos are copied into it, between others NCCL moves them, between fields in
 * host memory MPI. */
#ifndef SPIDER_DISTRIBUTED_H
#define SPIDER_DISTRIBUTED_H

/* The C++ bindings that MPI once had would bring their own warnings, and a library to link. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <spider/reductions.h>
#include <spider/spider.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A whole field, cut into a part for each rank, as one kernel sweeps it. */
typedef struct spider_grid spider_grid;

/** What a rank must know of its part. Three elements are z, y, x. Append only. */
typedef struct spider_grid_layout {
  uint32_t size;       /**< of this struct, in bytes */
  int32_t ranks;       /**< of the grid's communicator */
  int32_t rank;        /**< of this process in it */
  int32_t parts[3];    /**< ranks along each axis */
  int32_t place[3];    /**< of this one among them */
  int32_t periodic[3]; /**< 1 where the kernel's rule is */
  spider_part part;    /**< where this rank's part begins, and the extents of the whole */
  int64_t extent[3];   /**< of this rank's fields; parts may differ */
  int64_t low[3];      /**< cells of halo that fields keep before their interior */
  int64_t high[3];     /**< and behind it */
} spider_grid_layout;

/** Cuts `whole` over the ranks of `communicator`, which is duplicated. Of a system `whole` is that of fields
 * with all axes. Planes of a kernel of one or two dimensions that is no system are images of a batch: each
 * rank has its part of each, as planes of its fields. A Cartesian communicator is used as it is: its
 * dimensions are z, y, x, or the first of them; otherwise the ranks are divided so that a step takes the
 * least time by estimate.
 * `periodic` says for z, y, x what the caller expects of the kernel's rules; NULL expects nothing. Ranks that
 * differ in kernel or extents, a Cartesian communicator or `periodic` that contradict the kernel's rules, and
 * parts narrower than the halo are refused, and cuts of an axis along which some fields of a system are
 * periodic and others not; without a Cartesian communicator such an axis has one rank. With the CUDA back end
 * the current device is this rank's, each rank has one of its own, and the kernel is loaded. */
SPIDER_PUBLIC spider_status spider_grid_create(MPI_Comm communicator, const spider_kernel* kernel,
                                               const int64_t whole[3], const int32_t periodic[3],
                                               spider_grid** grid);
/** The same with a handle of Fortran's. */
SPIDER_PUBLIC spider_status spider_grid_create_f(MPI_Fint communicator, const spider_kernel* kernel,
                                                 const int64_t whole[3], const int32_t periodic[3],
                                                 spider_grid** grid);
/** Before MPI_Finalize, and after the work on streams is done; NULL is ignored. GPUs that opened memory to
 * each other wait for the other ranks to free theirs, 2 seconds at most. */
SPIDER_PUBLIC spider_status spider_grid_free(spider_grid* grid);

/** The grid of one field of a system of equations, by its place in spider_kernel_info.field_names: it tells
 * that field's halo, and exchanges, scatters, gathers, reads and writes fields of its storage and axes; along
 * axes on which the field has no cells all ranks have all of it. NULL where there is no such field. It
 * belongs to `grid`, and is freed with it. Not collective. */
SPIDER_PUBLIC spider_grid* spider_grid_of_field(const spider_grid* grid, int32_t field);

/** Valid as long as the grid; NULL where that is. Of a system the halo is the most that one of its fields
 * keeps. Not collective. */
SPIDER_PUBLIC const spider_grid_layout* spider_grid_info(const spider_grid* grid);

/** How halos come to this rank and leave it, in words: "copies into slots of 2 neighbours", "NCCL with 1
 * neighbour", both, or "MPI"; "copies into fields of 2 neighbours" behind a call of spider_grid_iterate or
 * spider_grid_run whose exchanges, but the first, took no slots. Empty where GPUs have no neighbours. Valid
 * as long as the grid; NULL where that is. Not collective. */
SPIDER_PUBLIC const char* spider_grid_transport(const spider_grid* grid);

/** Fills the halo of `field`, corners included, from the other ranks, in the order of `stream`. Cells beyond
 * `halo` faces of the whole are the caller's: they are read, sent to neighbours and not written. */
SPIDER_PUBLIC spider_status spider_grid_exchange(spider_grid* grid, const spider_field* field, void* stream);

/** `steps` time steps of the whole, from `a` to `b` and back, as spider_iterate: its bits. Fills the halos of
 * both on the way, once a sweep, while the rest is swept. Allocates nothing; with the CUDA back end it
 * waits for no stream, and can be captured in a CUDA graph. `*result` may be NULL. */
SPIDER_PUBLIC spider_status spider_grid_iterate(spider_grid* grid, const spider_field* a,
                                                const spider_field* b, int64_t steps, void* stream,
                                                const spider_field** result);

/** The same for a sweep with all that a kernel takes, as spider_run_steps: previous and further fields and
 * scalars. Its part, box and batch stay NULL and 0. The fields that take turns all have the grid's halo, with
 * out_previous two pairs of them, of which a sweep of several steps fills the halos of both; further ones
 * need none, and are not exchanged. But where a sweep of the kernel has several steps, further fields have
 * that halo, too, which is filled once in each call; on more than one rank they are then of the kernel's
 * storage, else SPIDER_ERROR_UNSUPPORTED. Images of the fields that take turns lie equally far apart; further
 * fields have as many, and where sweeps have one step may have a stride of 0, so that all images have one.
 *
 * Of a system: before a launch the halos are filled of the fields that it reads around its points and that
 * were written since, or are read for the first time in this call. All fields and outputs keep the halo of
 * their field's grid (spider_grid_of_field), which sweeps need not fill. `*result` is NULL; where the results
 * are behind so many steps is as of spider_run_steps. */
SPIDER_PUBLIC spider_status spider_grid_run(spider_grid* grid, const spider_sweep* sweep, int64_t steps,
                                            const spider_field** result);

/** spider_reductions_read of the points of all ranks: the numbers, and their bits, are those of one rank.
 * Each rank has reductions of its own, which its sweeps added to (spider_sweep.reductions of
 * spider_grid_run). */
SPIDER_PUBLIC spider_status spider_grid_read_reductions(spider_grid* grid, spider_reductions* reductions,
                                                        double* values, void* stream);

/** spider_run_until of the points of all ranks, which end behind the same step: steps as of spider_grid_run,
 * numbers as of spider_grid_read_reductions, at the end of every `check_every`th step and of the last one.
 * Waits for them, and cannot be captured. `done` and `values` may be NULL. */
SPIDER_PUBLIC spider_status spider_grid_run_until(spider_grid* grid, const spider_sweep* sweep, int64_t steps,
                                                  int32_t reduction, double bound, int64_t check_every,
                                                  int64_t* done, double* values);

/** Waits for the stream's work at most so many seconds, and for ever with 0. NCCL errors, which a rank that
 * died may cause, and a time that has run out are SPIDER_ERROR_RANKS: the grid is then good for
 * spider_grid_free only. Not collective. */
SPIDER_PUBLIC spider_status spider_grid_wait(spider_grid* grid, void* stream, double seconds);

/** From host memory of `root`, row after row, plane after plane without gaps, to the interiors of all ranks'
 * fields. Others may pass NULL. Waits as spider_upload does. */
SPIDER_PUBLIC spider_status spider_grid_scatter(spider_grid* grid, const void* whole_on_host, int32_t root,
                                                const spider_field* field);
/** And back. */
SPIDER_PUBLIC spider_status spider_grid_gather(spider_grid* grid, const spider_field* field, int32_t root,
                                               void* whole_on_host);

/** Reads the whole from a .npy file, all ranks at once. Its shape is the whole's, with or without leading
 * axes of one cell; its type the kernel's: <f2, <f4, <f8, or <V2 and <u2 for bf16. */
SPIDER_PUBLIC spider_status spider_grid_read_npy(spider_grid* grid, const char* path,
                                                 const spider_field* field);
/** Writes one of as many axes as the kernel has. The file has its name when it is complete. */
SPIDER_PUBLIC spider_status spider_grid_write_npy(spider_grid* grid, const spider_field* field,
                                                  const char* path);

/** Makes a device current that no other rank takes, before any other call for a device: where the ranks of a
 * host see the same devices, that with the number of this rank on its host, else one of those that this rank
 * sees, which may be one alone. Devices are told apart by their UUIDs. SPIDER_ERROR_RANKS where the ranks see
 * too few. Does nothing where fields are in host memory. Collective on the communicator. */
SPIDER_PUBLIC spider_status spider_select_device(MPI_Comm communicator);
/** The same with a handle of Fortran's. */
SPIDER_PUBLIC spider_status spider_select_device_f(MPI_Fint communicator);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_DISTRIBUTED_H */
