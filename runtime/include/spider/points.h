/** \file
 * Sources and receivers: values added to single cells of a field, and cells read, between the sweeps of a
 * stream. C.
 *
 *     const int64_t cells[] = {0, 150, 200};  // z, y, x of each point
 *     spider_points* source;
 *     spider_points_create(wave_kernel(), u.extent, cells, 1, &source);
 *     for (step = 0; step < steps; ++step) {
 *       spider_run(wave_kernel(), &sweep);
 *       spider_points_add(source, sweep.out, signal + step, stream);      // signal[steps] in device memory
 *       spider_points_read(line, sweep.out, trace + step * n, stream);    // trace[steps][n] likewise
 *       ...
 *     }
 *
 * Values have the type of spider_kernel_info.accumulate, float for SPIDER_F32 and double for SPIDER_F64,
 * whatever the field stores, and lie where fields do: in device memory with the CUDA back end
 * (spider_allocate, spider_upload), in host memory with the others. Adding and reading neither allocate nor
 * wait for the stream, and can be captured in a CUDA graph, which records field and value addresses. */
#ifndef SPIDER_POINTS_H
#define SPIDER_POINTS_H

#include <spider/spider.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Cells of fields of one kernel and of one shape, on the device that was current when they were created. */
typedef struct spider_points spider_points;

/** `cells` are z, y, x of each of `count` points in host memory, counted from the first interior cell of
 * fields of these extents; 0 points are allowed. A cell outside is SPIDER_ERROR_EXTENT, named in the message;
 * no halo is written or read. Loads what the other calls need, and waits for the copy of the list. */
SPIDER_PUBLIC spider_status spider_points_create(const spider_kernel* kernel, const int64_t extent[3],
                                                 const int64_t* cells, int64_t count, spider_points** points);
/** The same for one field of a system, by its index in spider_kernel_info.field_names; `extent` is its own,
 * 1 along axes on which it has no cells. Values are double where the field stores SPIDER_F64, otherwise
 * float. spider_points_create takes systems whose fields all have one storage. */
SPIDER_PUBLIC spider_status spider_points_create_of_field(const spider_kernel* kernel, int32_t field,
                                                          const int64_t extent[3], const int64_t* cells,
                                                          int64_t count, spider_points** points);
/** Call it after the work on streams is done; NULL is ignored. */
SPIDER_PUBLIC spider_status spider_points_free(spider_points* points);

/** field[cell i] += values[i]. For a cell that is listed more than once, the sum begins with the field's
 * value, continues in the order of the list and in the values' type, and is rounded to the field's storage
 * once: the same bits on every run. The field has the kernel's storage: its input, output or previous field.
 * Values and field share no memory. */
SPIDER_PUBLIC spider_status spider_points_add(const spider_points* points, const spider_field* field,
                                              const void* values, void* stream);
/** values[i] = field[cell i], exactly. */
SPIDER_PUBLIC spider_status spider_points_read(const spider_points* points, const spider_field* field,
                                               void* values, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_POINTS_H */
