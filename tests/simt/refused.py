"""Kernels that cannot be compiled. The line at fault ends with `# refused`."""

import numpy as np
from numba import cuda, float32

SIZES = [4, 8]
PAIR = np.dtype([("x", np.float32), ("y", np.float32)])
names = {"a": 1}


@cuda.jit
def exception(a):
    try:  # refused
        a[0] = 1
    except ValueError:
        a[0] = 2


@cuda.jit
def context(a):
    with a:  # refused
        a[0] = 1


@cuda.jit
def imports(a):
    from math import pi  # refused

    a[0] = pi


@cuda.jit
def comprehension(a):
    b = [x + 1 for x in range(3)]  # refused
    a[0] = b[0]


@cuda.jit
def dictionary(a):
    a[0] = names["a"]  # refused


@cuda.jit
def loop_over_a_dictionary(a):
    for x in {1: 2}:  # refused
        a[0] = x


@cuda.jit
def method_of_a_number(a):
    t = cuda.threadIdx.x
    t.copy_to_host()  # refused


@cuda.jit
def attribute_of_a_number(a):
    x = a[0]
    cuda.syncthreads()
    a[1] = x.units  # refused


@cuda.jit
def barrier_that_is_not_called(a):
    cuda.syncthreads  # noqa: B018  # refused
    a[0] = 1


@cuda.jit
def pattern_of_a_sequence(a):
    match a.shape:
        case [n]:  # refused
            a[0] = n


@cuda.jit
def more_variables_than_values(a):
    for i, j, x in enumerate(a):  # refused
        a[i] = x + j


@cuda.jit
def too_many_indices(a):
    a[0] = a[1, 2]  # refused


@cuda.jit
def lambda_with_options(a):
    f = lambda **x: x[0]  # noqa: E731  # refused
    a[0] = f(a[1])


@cuda.jit
def unknown_name(a):
    a[0] = nothing  # noqa: F821  # refused


@cuda.jit
def unknown_function(a):
    a[0] = nothing(1)  # noqa: F821  # refused


@cuda.jit
def field_that_a_record_lacks(a):
    b = cuda.local.array(2, PAIR)
    b[0].x = a[0]
    a[0] = b[0].z  # refused


@cuda.jit
def record_as_a_number(a):  # refused
    b = cuda.local.array(2, PAIR)
    b[0].x = b[1]


@cuda.jit
def number_or_text(a):
    a[0] = a[0] if cuda.threadIdx.x else "s"  # refused


@cuda.jit
def order_of_complex_numbers(a):
    a[0] = 1 + 1j * a[0] < 2j * a[0]  # refused


@cuda.jit
def host_function(a):
    a[0] = np.linalg.norm(a)  # refused


@cuda.jit
def shape_from_an_argument(a):
    s = cuda.shared.array(a.size, float32)  # refused
    s[0] = a[0]


@cuda.jit
def shape_from_the_array_itself(a):
    s = cuda.shared.array(n, float32)  # noqa: F821  # refused
    n = s[0]
    a[0] = n


@cuda.jit
def result(a):  # refused
    return a[0]


@cuda.jit
def text_added_to_a_number(a):
    a[0] = a[1] + "one"  # refused


@cuda.jit
def reserved_name(a):  # refused
    _lanes = a[0]
    a[1] = _lanes


@cuda.jit
def name_of_a_slot(a):  # refused
    t = cuda.threadIdx.x
    total = a[t]
    total_of = total * 2
    cuda.syncthreads()
    a[t] = total + total_of


@cuda.jit
def barrier_for_a_warp(a):
    if cuda.threadIdx.x < 16:  # refused
        cuda.syncthreads()
    a[0] = 1


@cuda.jit
def barrier_for_odd_threads(a):
    t = cuda.threadIdx.x
    odd = t % 2
    while odd == 1:  # refused
        cuda.syncthreads()
        odd = 0
    a[t] = 1


@cuda.jit
def type_of_an_array_unknown(a):
    kind = a[0]
    b = cuda.local.array(4, kind)  # refused
    a[0] = b.size


@cuda.jit
def too_few_arguments_of_cuda(a):
    cuda.atomic.add(a, 0)  # refused


@cuda.jit
def argument_of_cuda_by_name(a):
    a[0] = cuda.shfl_sync(0xFFFFFFFF, a[0], src_lane=1)  # refused


@cuda.jit(device=True)
def digits(x):
    return x


@cuda.jit
def too_many_arguments(a):
    a[0] = digits(1, 2)  # refused


@cuda.jit(device=True)
def with_keywords(a, n=3, *, m):
    return a + n + m


@cuda.jit
def too_many_by_place(a):
    a[0] = with_keywords(1, 2, 3)  # refused


@cuda.jit
def argument_left_out(a):
    a[0] = with_keywords(1)  # refused


@cuda.jit
def argument_of_no_parameter(a):
    a[0] = with_keywords(1, m=2, k=3)  # refused


@cuda.jit
def argument_given_twice(a):
    a[0] = with_keywords(1, a=2, m=3)  # refused


@cuda.jit
def print_with_options(a):
    print(a[0], sep=",")  # refused


@cuda.jit
def lambda_as_a_value(a):
    a[0] = lambda: 1  # refused


@cuda.jit
def element_deleted(a):
    del a[0]  # refused


@cuda.jit
def steps_of_zero(a):
    for i in range(3):
        a[i] = 1
    for i in range(0, 3, a.size - 64):  # refused
        a[i] = 1


@cuda.jit
def slice_with_steps_of_zero(a):
    b = a[1:3]
    b[0] = a[0 : 4 : a.size - 64][0]  # refused


@cuda.jit
def array_as_a_condition(a):  # refused
    a[0] = 1 if a else 2


@cuda.jit
def name_that_cuda_lacks(a):
    cuda.syncblocks()  # refused


@cuda.jit
def index_of_cuda_as_a_number(a):
    a[0] = cuda.threadIdx  # refused


@cuda.jit
def local_array_of_a_negative_size(a):
    b = cuda.local.array(-4, float32)  # refused
    a[0] = b.size


@cuda.jit
def local_array_above_the_limit(a):
    b = cuda.local.array((512, 257), float32)  # refused
    b[0, 0] = 1
    a[0] = b[0, 0]


@cuda.jit
def named_like_an_index_of_cuda(a):  # refused
    gridDim_x = 100
    a[cuda.blockIdx.x] = gridDim_x


@cuda.jit
def whole_array_changed(a, b):
    a += b  # refused


@cuda.jit
def arrays_that_change_places(a, b):
    i = cuda.grid(1)
    for _ in range(3):
        a[i, 0] = b[i, 0] + 1
        a, b = b, a  # refused


@cuda.jit
def one_of_two_arrays(a, b):
    i = cuda.grid(1)
    x = a if i < 40 else b  # refused
    x[i, 0] = b[i, 1]


# In check mode and the profile every access is looked at, an element at a time.
UNSEEN = {
    whole_array_changed: "a stands for a part of an array, and not always for the same",
    arrays_that_change_places: "index",
    one_of_two_arrays: "x stands for a part of an array, and not always for the same",
}

CASES = {
    exception: "try",
    context: "with",
    imports: "write the import before the kernel",
    comprehension: "a list comprehension is not supported in a kernel: write a loop",
    dictionary: "names",
    loop_over_a_dictionary: "",
    method_of_a_number: "Unknown attribute 'copy_to_host' of type int64",
    attribute_of_a_number: "Unknown attribute 'units' of type float32",
    barrier_that_is_not_called: "write cuda.syncthreads()",
    pattern_of_a_sequence: "a pattern is a number",
    more_variables_than_values: "3 variables for 2 values",
    too_many_indices: "cannot index an array of 1 dimension, float32 with 2 indices",
    lambda_with_options: "**x",
    unknown_name: "name nothing is not defined",
    unknown_function: "name nothing is not defined",
    field_that_a_record_lacks: "b[0].z: z is no field of it: it has x, y",
    record_as_a_number: "Cannot cast a record to float32",
    number_or_text: "Cannot unify float32 and 's'",
    order_of_complex_numbers: "there is no x < y, where x is complex128",
    host_function: "np.linalg.norm",
    shape_from_an_argument: "must be constant",
    type_of_an_array_unknown: "kind is no type",
    too_few_arguments_of_cuda: "takes 3 arguments, not 2",
    argument_of_cuda_by_name: "one by one, in order",
    too_many_arguments: "digits takes 1 argument, not 2",
    too_many_by_place: "with_keywords takes 2 arguments by place, not 3",
    argument_left_out: "with_keywords is not given m",
    argument_of_no_parameter: "with_keywords has no parameter k",
    argument_given_twice: "with_keywords is given a twice",
    print_with_options: "print takes no sep=",
    lambda_as_a_value: "a lambda as a value is not supported in a kernel",
    element_deleted: "del of an element is not supported in a kernel",
    steps_of_zero: "range() arg 3 must not be zero",
    slice_with_steps_of_zero: "slice step cannot be zero",
    array_as_a_condition: "The truth value of an array",
    name_that_cuda_lacks: "cuda has no syncblocks",
    index_of_cuda_as_a_number: "write cuda.threadIdx.x",
    shape_from_the_array_itself: "must be constant",
    local_array_of_a_negative_size: "whole numbers >= 0",
    local_array_above_the_limit: "512 KiB",
    result: "returns nothing",
    text_added_to_a_number: "there is no x + y, where x is float32, y is 'one'",
    reserved_name: "choose another",
    named_like_an_index_of_cuda: "choose another",
    name_of_a_slot: "choose another name",
    barrier_for_a_warp: "same barrier",
    barrier_for_odd_threads: "same barrier",
}
