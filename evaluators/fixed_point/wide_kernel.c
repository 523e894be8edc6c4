/* The batch simulator for programs that have 32 bits somewhere: values are int32, and all is computed in int64. */
#define WIDE_VALUES
#include "kernel.c"
