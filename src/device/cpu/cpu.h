/* cpu.h - the CPU device: one rank, f32 activations, weights in the format they came with. Opened by
 * device.c. */
#ifndef QN_DEVICE_CPU_CPU_H
#define QN_DEVICE_CPU_CPU_H

#include "device/device.h"

qn_status qn_cpu_open(qn_device **out, const qn_device_options *o, qn_error *err) QN_CHECKED;

#endif
