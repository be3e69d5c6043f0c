#include "bf_by_hand.h"
#include <stdio.h>
int main(void) { loads(100000); bf_reserve(&bf_call_callee); bf_reserve(&bf_call_defined); puts("out"); return 3; }
