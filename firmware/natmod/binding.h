/* What the parts of the MicroPython module share.
 *
 *   module.c     the functions that Python sees
 *   trees.c      growing trees
 *   predictor.c  predicting
 *   runtime.c    what a native module brings along, because the firmware may not export it
 *
 * The same sources make a native module (a .mpy file) and a part of a firmware (a user C module).
 * Nothing that Python can still change is trusted: the nodes, the labels and the memory to work in
 * are private, and buffers are looked up anew in every call, since they may have moved.
 */
#ifndef EF_BINDING_H
#define EF_BINDING_H

#if MICROPY_ENABLE_DYNRUNTIME
#include "py/dynruntime.h"
#define EF_TYPE mp_obj_full_type_t
#else
#include "py/binary.h"
#include "py/objlist.h"
#include "py/objstr.h"
#include "py/runtime.h"
#define EF_TYPE const mp_obj_type_t
#endif

#include "edgeforest.h"

#define EF_REFUSE(sentence) mp_raise_ValueError(MP_ERROR_TEXT(sentence))

/* The letter of array.array for an ef_real. */
#define EF_LETTER (sizeof(ef_real) == sizeof(float) ? 'f' : 'd')

extern EF_TYPE ef_type_trees, ef_type_predictor;

/* The kind of numbers in a buffer; EF_F64 stands for those that are not supported. */
ef_type ef_kind(const mp_buffer_info_t *buffer);

/* A buffer of at least `count` numbers of this kind; refused if it is another. */
void *ef_buffer(mp_obj_t object, ef_type kind, size_t count, mp_uint_t access);

mp_obj_t ef_trees(size_t n_args, const mp_obj_t *args);
mp_obj_t ef_begin(size_t n_args, const mp_obj_t *args);
mp_obj_t ef_grow(mp_obj_t trees, mp_obj_t insertions, mp_obj_t late);
mp_obj_t ef_spent(mp_obj_t trees);
mp_obj_t ef_close(mp_obj_t trees);
mp_obj_t ef_write(size_t n_args, const mp_obj_t *args);

mp_obj_t ef_predictor(mp_obj_t forest);
mp_obj_t ef_predictor_call(mp_obj_t self, size_t n_args, size_t n_kw, const mp_obj_t *args);

#endif
