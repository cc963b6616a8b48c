/* The functions of the module `edgeforest_kernel`; edgeforest_kernel.py has the rest of it. */
#include "binding.h"

/* What this build can grow; all else is done in Python. */
#ifdef EF_WITHOUT_MSE
#define PART_MSE ""
#else
#define PART_MSE " mse"
#endif
#ifdef EF_WITHOUT_ENTROPY
#define PART_ENTROPY ""
#else
#define PART_ENTROPY " entropy"
#endif
#ifdef EF_WITHOUT_PAPER
#define PART_PAPER ""
#else
#define PART_PAPER " mab-paper"
#endif
#define PARTS "mab exact gini" PART_MSE PART_ENTROPY PART_PAPER

#ifndef EF_ONLY_PREDICT
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(trees_obj, 9, 9, ef_trees);
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(begin_obj, 4, 4, ef_begin);
static MP_DEFINE_CONST_FUN_OBJ_3(grow_obj, ef_grow);
static MP_DEFINE_CONST_FUN_OBJ_1(spent_obj, ef_spent);
static MP_DEFINE_CONST_FUN_OBJ_1(close_obj, ef_close);
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(write_obj, 8, 8, ef_write);
#else
/* grower(task): the engine's own. */
static mp_obj_t grower(mp_obj_t task)
{
    mp_obj_t method[3];
    mp_load_method(mp_load_attr(task, MP_QSTR_engine), MP_QSTR_grower, method);
    mp_obj_t call[2] = {method[1] == MP_OBJ_NULL ? task : method[1], task};
    return mp_call_function_n_kw(method[0], method[1] == MP_OBJ_NULL ? 1 : 2, 0, call);
}
static MP_DEFINE_CONST_FUN_OBJ_1(grower_obj, grower);
#endif
static MP_DEFINE_CONST_FUN_OBJ_1(predictor_obj, ef_predictor);

#if MICROPY_ENABLE_DYNRUNTIME

mp_obj_full_type_t ef_type_predictor;
#ifndef EF_ONLY_PREDICT
mp_obj_full_type_t ef_type_trees;
#endif

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args)
{
    MP_DYNRUNTIME_INIT_ENTRY
    ef_type_predictor.base.type = &mp_type_type;
    ef_type_predictor.name = MP_QSTR_predictor;
    MP_OBJ_TYPE_SET_SLOT(&ef_type_predictor, call, ef_predictor_call, 0);
    mp_store_global(MP_QSTR_predictor, MP_OBJ_FROM_PTR(&predictor_obj));
#ifdef EF_ONLY_PREDICT
    mp_store_global(MP_QSTR_grower, MP_OBJ_FROM_PTR(&grower_obj));
#else
    ef_type_trees.base.type = &mp_type_type;
    ef_type_trees.name = MP_QSTR_trees;
    mp_store_global(MP_QSTR_trees, MP_OBJ_FROM_PTR(&trees_obj));
    mp_store_global(MP_QSTR_begin, MP_OBJ_FROM_PTR(&begin_obj));
    mp_store_global(MP_QSTR_grow, MP_OBJ_FROM_PTR(&grow_obj));
    mp_store_global(MP_QSTR_spent, MP_OBJ_FROM_PTR(&spent_obj));
    mp_store_global(MP_QSTR_close, MP_OBJ_FROM_PTR(&close_obj));
    mp_store_global(MP_QSTR_write, MP_OBJ_FROM_PTR(&write_obj));
    mp_store_global(MP_QSTR_REAL, mp_obj_new_str(EF_LETTER == 'f' ? "f" : "d", 1));
    mp_store_global(MP_QSTR_PARTS, mp_obj_new_str(PARTS, sizeof PARTS - 1));
#endif
    MP_DYNRUNTIME_INIT_EXIT
}

#else

MP_DEFINE_CONST_OBJ_TYPE(ef_type_trees, MP_QSTR_trees, MP_TYPE_FLAG_NONE);
MP_DEFINE_CONST_OBJ_TYPE(ef_type_predictor, MP_QSTR_predictor, MP_TYPE_FLAG_NONE, call,
                         ef_predictor_call);

static const MP_DEFINE_STR_OBJ(parts_obj, PARTS);

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__edgeforest_kernel)},
    {MP_ROM_QSTR(MP_QSTR_trees), MP_ROM_PTR(&trees_obj)},
    {MP_ROM_QSTR(MP_QSTR_begin), MP_ROM_PTR(&begin_obj)},
    {MP_ROM_QSTR(MP_QSTR_grow), MP_ROM_PTR(&grow_obj)},
    {MP_ROM_QSTR(MP_QSTR_spent), MP_ROM_PTR(&spent_obj)},
    {MP_ROM_QSTR(MP_QSTR_close), MP_ROM_PTR(&close_obj)},
    {MP_ROM_QSTR(MP_QSTR_write), MP_ROM_PTR(&write_obj)},
    {MP_ROM_QSTR(MP_QSTR_predictor), MP_ROM_PTR(&predictor_obj)},
    {MP_ROM_QSTR(MP_QSTR_REAL), MP_ROM_QSTR(sizeof(ef_real) == sizeof(float) ? MP_QSTR_f : MP_QSTR_d)},
    {MP_ROM_QSTR(MP_QSTR_PARTS), MP_ROM_PTR(&parts_obj)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t edgeforest_kernel_module = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
#ifndef EF_NAMES_ALONE
MP_REGISTER_MODULE(MP_QSTR__edgeforest_kernel, edgeforest_kernel_module);
#endif

#endif
