# The kernel as a part of a firmware that you build yourself: MicroPython's user C modules.
#   make -C ports/stm32 USER_C_MODULES=path/to/edgeforest/firmware FROZEN_MANIFEST=...
# The manifest freezes edgeforest_kernel.py: include("path/to/edgeforest/firmware/natmod/manifest.py").
EF_DIR := $(USERMOD_DIR)
SRC_USERMOD_C += $(addprefix $(EF_DIR)/, module.c predictor.c trees.c)
SRC_USERMOD_C += $(addprefix $(EF_DIR)/../kernel/, \
	arms.c bins.c compact.c count.c criteria.c data.c grow.c race.c second_look.c small.c)
CFLAGS_USERMOD += -I$(EF_DIR) -I$(EF_DIR)/../kernel
# A board whose MicroPython computes in double: EF_REAL=double.
EF_REAL ?= float
CFLAGS_USERMOD += -DEF_BOARD -DEF_WITHOUT_PAPER -DEF_WITHOUT_ENTROPY -DEF_REAL=$(EF_REAL)
