/** \file
 * Numbers that sweeps of a system of equations make of all points: the `reduce` of its spec. C.
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

/** What the sweeps of one stream at a time add their points to, on the device that is current.
 * SPIDER_ERROR_UNSUPPORTED where the kernel has no reductions. */
SPIDER_PUBLIC spider_status spider_reductions_create(const spider_kernel* kernel,
                                                     spider_reductions** reductions);
/** After the work on streams is done; NULL is ignored. */
SPIDER_PUBLIC spider_status spider_reductions_free(spider_reductions* reductions);

/** The numbers, in the order of spider_kernel_info.reduction_names, of all points that were swept since the
 * last read; then it begins anew. Waits for the stream, and cannot be captured in a graph. Of no points sums
 * are 0, maxima -infinity and minima infinity. */
SPIDER_PUBLIC spider_status spider_reductions_read(spider_reductions* reductions, double* values,
                                                   void* stream);

/** spider_run_steps until a reduction is at most `bound`: of at most `steps` steps every `check_every`th, and
 * the last, computes the reductions and is waited for. `done` gets the number of steps, which says where
 * fields are (spider_run_steps), `values` (may be NULL) the reductions of the last one. A NaN is never at
 * most anything. `sweep->reductions` is given, and has been read. */
SPIDER_PUBLIC spider_status spider_run_until(const spider_kernel* kernel, const spider_sweep* sweep,
                                             int64_t steps, int32_t reduction, double bound,
                                             int64_t check_every, int64_t* done, double* values);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_REDUCTIONS_H */
