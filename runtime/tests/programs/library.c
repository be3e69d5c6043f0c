/* For dlopen: asks for a line size of its own, and records while it is being unloaded. */
#include <stdint.h>
static const uint32_t sizes[] = {128};
#define BF_LINES sizes
#define BF_N_LINES 1
#define BF_CALLEES "outside\0main\0"
#define BF_N_CALLEES 2
#include "bf_by_hand.h"
void work(void)
{
    loads(100);
    bf_reserve(&bf_call_callee);
    bf_reserve(&bf_call_defined);
}
__attribute__((destructor)) static void unload(void) { work(); }
