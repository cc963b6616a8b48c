// A board for the tests: runs `script.py` of a littlefs in a heap of the caller's choice, then ends QEMU.
//
// QEMU loads an image to 0x21000000, the board's large memory; tests/cortex.py makes it. It begins with
// eight words, little-endian: a mark, the bytes of the heap, then offset and length in the image of a
// ROMFS, of a littlefs and of the arguments, each of which ends in a zero byte. What the script prints
// goes to the first serial line, the exception that ends it to the second, the exit code to QEMU.

#include <string.h>

#include "py/compile.h"
#include "py/gc.h"
#include "py/lexer.h"
#include "py/mperrno.h"
#include "py/mphal.h"
#include "py/objarray.h"
#include "py/objlist.h"
#include "py/runtime.h"
#include "py/stackctrl.h"
#include "extmod/vfs.h"

#define MARK (0x33436645)
#define HEAP_MAX (3 * 1024 * 1024)
#define STACK_MAX (10240) // as in the port's own main
#define BLOCK (4096)
#define NO_IMAGE (4) // exit codes
#define NO_DISK (5)

typedef struct {
    uint32_t mark, heap, rom, rom_length, files, files_length, arguments, arguments_length;
} image_t;

static uint8_t *const image = (uint8_t *)0x21000000;
#define IMAGE ((const image_t *)image)

static uint32_t heap[HEAP_MAX / sizeof(uint32_t)];

// ---- Leaving

static NORETURN void leave(int code) {
    // SYS_EXIT_EXTENDED with ADP_Stopped_ApplicationExit.
    uint32_t block[2] = { 0x20026, code };
    register uint32_t call __asm__ ("r0") = 0x20;
    register uint32_t *with __asm__ ("r1") = block;
    __asm__ volatile ("bkpt 0xAB" : "+r" (call) : "r" (with) : "memory");
    for (;;) {
    }
}

static void print_to_second_line(void *env, const char *text, size_t length) {
    volatile uint32_t *uart = (uint32_t *)0x40005000; // DATA, STATE, CTRL, INTSTATUS, BAUDDIV
    uart[4] = 16;
    uart[2] = 1;
    while (length--) {
        while (uart[1] & 1) {
        }
        uart[0] = *text++;
    }
}

static const mp_print_t second_line = { NULL, print_to_second_line };

// ---- Time: a timer of 25 MHz, which QEMU derives from the instructions if it is told to count them

static volatile uint32_t *const timer = (uint32_t *)0x40000000; // CTRL, VALUE, RELOAD

static void start_timer(void) {
    timer[2] = timer[1] = 0xffffffff;
    timer[0] = 1;
}

mp_uint_t mp_hal_ticks_cpu(void) {
    return ~timer[1];
}

mp_uint_t mp_hal_ticks_us(void) {
    return mp_hal_ticks_cpu() / 25;
}

mp_uint_t mp_hal_ticks_ms(void) {
    return mp_hal_ticks_cpu() / 25000;
}

uint64_t mp_hal_time_ns(void) {
    return 40 * (uint64_t)mp_hal_ticks_cpu(); // since the start: there is no calendar
}

void mp_hal_delay_us(mp_uint_t us) {
    for (mp_uint_t start = mp_hal_ticks_cpu(); mp_hal_ticks_cpu() - start < 25 * us;) {
    }
}

void mp_hal_delay_ms(mp_uint_t ms) {
    while (ms--) {
        mp_hal_delay_us(1000);
    }
}

// ---- Files: blocks in memory, as other boards have them in flash

static uint8_t *place(size_t n_args, const mp_obj_t *args, size_t length) {
    size_t offset = mp_obj_get_int(args[1]) * BLOCK + (n_args == 4 ? mp_obj_get_int(args[3]) : 0);
    if (offset > IMAGE->files_length || length > IMAGE->files_length - offset) {
        mp_raise_OSError(MP_EIO);
    }
    return image + IMAGE->files + offset;
}

static mp_obj_t disk_readblocks(size_t n_args, const mp_obj_t *args) {
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(args[2], &buffer, MP_BUFFER_WRITE);
    memcpy(buffer.buf, place(n_args, args, buffer.len), buffer.len);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(disk_readblocks_obj, 3, 4, disk_readblocks);

static mp_obj_t disk_writeblocks(size_t n_args, const mp_obj_t *args) {
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(args[2], &buffer, MP_BUFFER_READ);
    memcpy(place(n_args, args, buffer.len), buffer.buf, buffer.len);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(disk_writeblocks_obj, 3, 4, disk_writeblocks);

static mp_obj_t disk_ioctl(mp_obj_t self, mp_obj_t command, mp_obj_t argument) {
    switch (mp_obj_get_int(command)) {
        case MP_BLOCKDEV_IOCTL_BLOCK_COUNT:
            return MP_OBJ_NEW_SMALL_INT(IMAGE->files_length / BLOCK);
        case MP_BLOCKDEV_IOCTL_BLOCK_SIZE:
            return MP_OBJ_NEW_SMALL_INT(BLOCK);
        default:
            return MP_OBJ_NEW_SMALL_INT(0);
    }
}
static MP_DEFINE_CONST_FUN_OBJ_3(disk_ioctl_obj, disk_ioctl);

static const mp_rom_map_elem_t disk_locals_table[] = {
    { MP_ROM_QSTR(MP_QSTR_readblocks), MP_ROM_PTR(&disk_readblocks_obj) },
    { MP_ROM_QSTR(MP_QSTR_writeblocks), MP_ROM_PTR(&disk_writeblocks_obj) },
    { MP_ROM_QSTR(MP_QSTR_ioctl), MP_ROM_PTR(&disk_ioctl_obj) },
};
static MP_DEFINE_CONST_DICT(disk_locals, disk_locals_table);
static MP_DEFINE_CONST_OBJ_TYPE(disk_type, MP_QSTR_Flash, MP_TYPE_FLAG_NONE, locals_dict, &disk_locals);
static const mp_obj_base_t disk = { &disk_type };

static mp_obj_array_t rom;

mp_obj_t mp_vfs_rom_ioctl(size_t n_args, const mp_obj_t *args) {
    switch (mp_obj_get_int(args[0])) {
        case MP_VFS_ROM_IOCTL_GET_NUMBER_OF_SEGMENTS:
            return MP_OBJ_NEW_SMALL_INT(1);
        case MP_VFS_ROM_IOCTL_GET_SEGMENT:
            return MP_OBJ_FROM_PTR(&rom);
        default:
            return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
}

// ---- Running

static void set_up(void) {
    mp_obj_t root = MP_OBJ_NEW_QSTR(MP_QSTR__slash_);
    if (mp_vfs_mount_and_chdir_protected(MP_OBJ_FROM_PTR(&disk), root) != 0) {
        leave(NO_DISK);
    }
    const char *text = (const char *)image + IMAGE->arguments;
    for (const char *end = text + IMAGE->arguments_length; text < end; text += strlen(text) + 1) {
        mp_obj_list_append(mp_sys_argv, mp_obj_new_str(text, strlen(text)));
    }
}

static int run_script(void) {
    nlr_buf_t nlr;
    if (nlr_push(&nlr) == 0) {
        mp_lexer_t *lexer = mp_lexer_new_from_file(qstr_from_str("script.py"));
        mp_parse_compile_execute(lexer, MP_PARSE_FILE_INPUT, mp_globals_get(), mp_locals_get());
        nlr_pop();
        return 0;
    }
    mp_obj_base_t *raised = nlr.ret_val;
    if (mp_obj_exception_match(MP_OBJ_FROM_PTR(raised), MP_OBJ_FROM_PTR(&mp_type_SystemExit))) {
        mp_obj_t value = mp_obj_exception_get_value(MP_OBJ_FROM_PTR(raised));
        mp_int_t code = 0;
        if (value != mp_const_none && !mp_obj_get_int_maybe(value, &code)) {
            code = 1;
        }
        return code & 255;
    }
    mp_obj_print_exception(&second_line, MP_OBJ_FROM_PTR(raised));
    return 1;
}

int __wrap_main(void);
int __wrap_main(void) {
    if (IMAGE->mark != MARK || IMAGE->heap > HEAP_MAX) {
        leave(NO_IMAGE);
    }
    start_timer();
    mp_stack_ctrl_init();
    mp_stack_set_limit(STACK_MAX);
    gc_init(heap, (char *)heap + IMAGE->heap);
    mp_obj_memoryview_init(&rom, 'B', 0, IMAGE->rom_length, image + IMAGE->rom);
    mp_init(); // which mounts the ROMFS, if there is one
    set_up();
    leave(run_script());
}
