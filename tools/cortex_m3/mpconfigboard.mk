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

# MicroPython numbers the names in all C files and shares the words of their error messages. What the
# kernel has of both is counted in here too, so that a firmware with it, as a user C module, is made of
# the same objects and few more.
ifeq ($(USER_C_MODULES),)
FIRMWARE := $(abspath $(BOARD_DIR)/../../firmware)
SRC_QSTR += $(addprefix $(FIRMWARE)/natmod/, module.c predictor.c trees.c)
CFLAGS += -I$(FIRMWARE)/natmod -I$(FIRMWARE)/kernel
CFLAGS += -DEF_NAMES_ALONE -DEF_BOARD -DEF_WITHOUT_PAPER -DEF_WITHOUT_ENTROPY -DEF_REAL=float
endif
