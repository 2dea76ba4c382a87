/** \file
 * Memory for callers that have no CUDA of their own (the C++ layer, Python, Fortran): device memory with the
 * CUDA back end, host memory with the others. The copies wait until they are done. */
#ifndef SPIDER_MEMORY_H
#define SPIDER_MEMORY_H

#include <spider/spider.h>

#ifdef __cplusplus
extern "C" {
#endif

/** `*memory` is aligned to 256 bytes; its contents are undefined. */
SPIDER_PUBLIC spider_status spider_allocate(uint64_t bytes, void** memory);
/** NULL is ignored. */
SPIDER_PUBLIC spider_status spider_free(void* memory);
/** `rows` rows of `row_bytes`; pitches are bytes from row to row. */
SPIDER_PUBLIC spider_status spider_upload(void* to, uint64_t to_pitch, const void* from_host,
                                          uint64_t from_pitch, uint64_t row_bytes, uint64_t rows);
/** Likewise, to the host. */
SPIDER_PUBLIC spider_status spider_download(void* to_host, uint64_t to_pitch, const void* from,
                                            uint64_t from_pitch, uint64_t row_bytes, uint64_t rows);
/** Waits for the stream's work; NULL is the legacy default stream. */
SPIDER_PUBLIC spider_status spider_synchronize(void* stream);
/** Sets `bytes` bytes of the back end's memory to zero, and waits as the copies do. */
SPIDER_PUBLIC spider_status spider_clear(void* memory, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* SPIDER_MEMORY_H */
