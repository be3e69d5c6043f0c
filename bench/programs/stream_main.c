/* The part of STREAM that numactl's sources leave to their callers: memory, and a line for each result. */
#include <stdio.h>
#include <stdlib.h>
#include "stream_lib.h"

int main(void)
{
	double rates[STREAM_NRESULTS];
	stream_verbose = 0;
	stream_setmem(192ul << 20);
	stream_init(calloc(1, stream_memsize()));
	stream_test(rates);
	for (int i = 0; i < STREAM_NRESULTS; i++)
		printf("%s %.1f\n", stream_names[i], rates[i]);
	return 0;
}
