// What the port leaves out and the boards of makers have: time, arguments, a writable filesystem.
#include "mpconfigport.h"

#undef MICROPY_PY_TIME
#define MICROPY_PY_TIME (1)
#undef MICROPY_VFS_ROM_IOCTL
#define MICROPY_VFS_ROM_IOCTL (1)
#define MICROPY_PY_SYS_ARGV (1)
#define MICROPY_PY_SYS_PATH_ARGV_DEFAULTS (1)

#include <stdint.h>
mp_uint_t mp_hal_ticks_cpu(void);
mp_uint_t mp_hal_ticks_us(void);
mp_uint_t mp_hal_ticks_ms(void);
void mp_hal_delay_us(mp_uint_t us);
void mp_hal_delay_ms(mp_uint_t ms);
uint64_t mp_hal_time_ns(void);
