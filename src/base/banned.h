/* banned.h - turns functions that cannot be used safely into compile errors. Forced into every source file of
 * quern by the Makefile (-include), after the system headers that declare them. */
#ifndef QN_BASE_BANNED_H
#define QN_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof

#endif
