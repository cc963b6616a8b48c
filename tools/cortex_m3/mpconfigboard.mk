# The board that the tests run: MicroPython's port for QEMU, with this folder as its BOARD_DIR.
QEMU_ARCH = arm
QEMU_MACHINE = mps2-an385

CFLAGS += -mthumb -mcpu=cortex-m3 -mfloat-abi=soft
CFLAGS += -DQEMU_SOC_MPS2
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M3"'
CFLAGS += -I$(BOARD_DIR) -DMP_CONFIGFILE='"mpconfigboard.h"'

LDSCRIPT = $(BOARD_DIR)/board.ld
# The port's own main is a prompt on a serial line; board.c has another one.
LDFLAGS += -Wl,--wrap=main

SRC_C += board.c
vpath board.c $(BOARD_DIR)
SRC_BOARD_O = shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o

MICROPY_VFS_LFS2 = 1
MPY_CROSS_FLAGS += -march=armv7m
