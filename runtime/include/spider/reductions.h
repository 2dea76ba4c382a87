/** \file
 * Reductions over all points by sweeps of a system of equations: the `reduce` of its spec. C.
 *
 *     spider_reductions* numbers;
 *     spider_reductions_create(poisson_kernel(), &numbers);
 *     sweep.reductions = numbers;
 *     spider_run(poisson_kernel(), &sweep);
 *     double values[2];                                      // spider_kernel_info.reduction_count of them
 *     spider_reductions_read(numbers, values, sweep.stream);  // waits
 *
 * A sum is that of all points, exactly, rounded once: the same bits however they are divided among boxes,
 * parts and launches, on every back end that computes the same values. NaN makes sums, maxima and minima NaN.
 */
#ifndef SPIDER_REDUCTIONS_H
#define SPIDER_REDUCTIONS_H

#include <spider/spider.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Accumulators on the current device, for sweeps of one stream at a time. SPIDER_ERROR_UNSUPPORTED if the
 * kernel has no reductions. */
SPIDER_PUBLIC spider_status spider_reductions_create(const spider_kernel* kernel,
                                                     spider_reductions** reductions);
/** Call it after the work on streams is done; NULL is ignored. */
SPIDER_PUBLIC spider_status spider_reductions_free(spider_reductions* reductions);

/** The numbers, in the order of spider_kernel_info.reduction_names, of all points swept since the last read;
 * then it starts again. Waits for the stream, and cannot be captured in a graph. Without points, sums are 0,
 * maxima -infinity and minima infinity. */
SPIDER_PUBLIC spider_status spider_reductions_read(spider_reductions* reductions, double* values,
                                                   void* stream);

/** spider_run_steps until a reduction is at most `bound`, for at most `steps` steps. Every `check_every`th
 * step, and the last, computes the reductions and is waited for. `done` gets the number of steps, which tells
 * where fields are (spider_run_steps), `values` (may be NULL) the reductions of the last one. NaN never meets
 * the bound. `sweep->reductions` must be given, and have been read. */
SPIDER_PUBLIC spider_status spider_run_until(const spider_kernel* kernel, const spider_sweep* sweep,
                                             int64_t steps, int32_t reduction, double bound,
                                             int64_t check_every, int64_t* done, double* values);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_REDUCTIONS_H */
