/* bmi.h: the Buffered Message Interface on Barewire. Made from the tables in abi/; do not edit. */
#ifndef BMI_H
#define BMI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t bmi_size_t;
typedef int64_t bmi_context_id;
typedef int64_t bmi_op_id_t;
typedef int64_t BMI_addr_t;
typedef int32_t bmi_msg_tag_t;
typedef int32_t bmi_error_code_t;
/* Nothing here takes hints: NULL. */
typedef struct bmi_hint_list *bmi_hint;

enum bmi_op_type { BMI_SEND = 1, BMI_RECV = 2 };
enum bmi_buffer_type { BMI_PRE_ALLOC = 1, BMI_EXT_ALLOC = 2 };

struct BMI_unexpected_info {
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

#define BMI_INIT_SERVER (1)
#define BMI_TCP_BIND_SPECIFIC (2)
#define BMI_AUTO_REF_COUNT (4)
#define BMI_DROP_ADDR (1)
#define BMI_CHECK_INIT (2)
#define BMI_CHECK_MAXSIZE (3)
#define BMI_GET_METH_ADDR (4)
#define BMI_INC_ADDR_REF (5)
#define BMI_DEC_ADDR_REF (6)
#define BMI_DROP_ADDR_QUERY (7)
#define BMI_FORCEFUL_CANCEL_MODE (8)
#define BMI_TRUSTED_CONNECTION (9)
#define BMI_GET_UNEXP_SIZE (10)
#define BMI_TCP_BUFFER_SEND_SIZE (11)
#define BMI_TCP_BUFFER_RECEIVE_SIZE (12)
#define BMI_TCP_CLOSE_SOCKET (13)
#define BMI_OPTIMISTIC_BUFFER_REG (14)
#define BMI_TCP_CHECK_UNEXPECTED (15)
#define BMI_ZOID_POST_TIMEOUT (16)
#define BMI_TRANSPORT_METHODS_STRING (17)
#define BMI_TCP_GET_PORT (18)
#define BMI_IO_READ (1)
#define BMI_IO_WRITE (2)
#define BMI_MAX_ADDR_LEN (256)
#define BMI_EPERM ((1<<30)|(1<<7)|1)
#define BMI_ENOENT ((1<<30)|(1<<7)|2)
#define BMI_EINTR ((1<<30)|(1<<7)|3)
#define BMI_EIO ((1<<30)|(1<<7)|4)
#define BMI_ENXIO ((1<<30)|(1<<7)|5)
#define BMI_EBADF ((1<<30)|(1<<7)|6)
#define BMI_EAGAIN ((1<<30)|(1<<7)|7)
#define BMI_ENOMEM ((1<<30)|(1<<7)|8)
#define BMI_EFAULT ((1<<30)|(1<<7)|9)
#define BMI_EBUSY ((1<<30)|(1<<7)|10)
#define BMI_EEXIST ((1<<30)|(1<<7)|11)
#define BMI_ENODEV ((1<<30)|(1<<7)|12)
#define BMI_ENOTDIR ((1<<30)|(1<<7)|13)
#define BMI_EISDIR ((1<<30)|(1<<7)|14)
#define BMI_EINVAL ((1<<30)|(1<<7)|15)
#define BMI_EMFILE ((1<<30)|(1<<7)|16)
#define BMI_EFBIG ((1<<30)|(1<<7)|17)
#define BMI_ENOSPC ((1<<30)|(1<<7)|18)
#define BMI_EROFS ((1<<30)|(1<<7)|19)
#define BMI_EMLINK ((1<<30)|(1<<7)|20)
#define BMI_EPIPE ((1<<30)|(1<<7)|21)
#define BMI_EDEADLK ((1<<30)|(1<<7)|22)
#define BMI_ENAMETOOLONG ((1<<30)|(1<<7)|23)
#define BMI_ENOLCK ((1<<30)|(1<<7)|24)
#define BMI_ENOSYS ((1<<30)|(1<<7)|25)
#define BMI_ENOTEMPTY ((1<<30)|(1<<7)|26)
#define BMI_ELOOP ((1<<30)|(1<<7)|27)
#define BMI_EWOULDBLOCK ((1<<30)|(1<<7)|28)
#define BMI_ENOMSG ((1<<30)|(1<<7)|29)
#define BMI_EUNATCH ((1<<30)|(1<<7)|30)
#define BMI_EBADR ((1<<30)|(1<<7)|31)
#define BMI_EDEADLOCK ((1<<30)|(1<<7)|32)
#define BMI_ENODATA ((1<<30)|(1<<7)|33)
#define BMI_ETIME ((1<<30)|(1<<7)|34)
#define BMI_ENONET ((1<<30)|(1<<7)|35)
#define BMI_EREMOTE ((1<<30)|(1<<7)|36)
#define BMI_ECOMM ((1<<30)|(1<<7)|37)
#define BMI_EPROTO ((1<<30)|(1<<7)|38)
#define BMI_EBADMSG ((1<<30)|(1<<7)|39)
#define BMI_EOVERFLOW ((1<<30)|(1<<7)|40)
#define BMI_ERESTART ((1<<30)|(1<<7)|41)
#define BMI_EMSGSIZE ((1<<30)|(1<<7)|42)
#define BMI_EPROTOTYPE ((1<<30)|(1<<7)|43)
#define BMI_ENOPROTOOPT ((1<<30)|(1<<7)|44)
#define BMI_EPROTONOSUPPORT ((1<<30)|(1<<7)|45)
#define BMI_EOPNOTSUPP ((1<<30)|(1<<7)|46)
#define BMI_EADDRINUSE ((1<<30)|(1<<7)|47)
#define BMI_EADDRNOTAVAIL ((1<<30)|(1<<7)|48)
#define BMI_ENETDOWN ((1<<30)|(1<<7)|49)
#define BMI_ENETUNREACH ((1<<30)|(1<<7)|50)
#define BMI_ENETRESET ((1<<30)|(1<<7)|51)
#define BMI_ENOBUFS ((1<<30)|(1<<7)|52)
#define BMI_ETIMEDOUT ((1<<30)|(1<<7)|53)
#define BMI_ECONNREFUSED ((1<<30)|(1<<7)|54)
#define BMI_EHOSTDOWN ((1<<30)|(1<<7)|55)
#define BMI_EHOSTUNREACH ((1<<30)|(1<<7)|56)
#define BMI_EALREADY ((1<<30)|(1<<7)|57)
#define BMI_EACCES ((1<<30)|(1<<7)|58)
#define BMI_ECONNRESET ((1<<30)|(1<<7)|59)
#define BMI_ECANCEL ((1<<30)|(1<<29)|(1<<7)|1)
#define BMI_EDEVINIT ((1<<30)|(1<<29)|(1<<7)|2)
#define BMI_EDETAIL ((1<<30)|(1<<29)|(1<<7)|3)
#define BMI_EHOSTNTFD ((1<<30)|(1<<29)|(1<<7)|4)
#define BMI_EADDRNTFD ((1<<30)|(1<<29)|(1<<7)|5)
#define BMI_ENORECVR ((1<<30)|(1<<29)|(1<<7)|6)
#define BMI_ETRYAGAIN ((1<<30)|(1<<29)|(1<<7)|7)

int BMI_initialize(const char *method_list, const char *listen_addr, int flags);
int BMI_finalize(void);
int BMI_open_context(bmi_context_id* context_id);
void BMI_close_context(bmi_context_id context_id);
int BMI_post_send(bmi_op_id_t * id, BMI_addr_t dest, const void *buffer, bmi_size_t size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_post_sendunexpected_class(bmi_op_id_t * id, BMI_addr_t dest, const void *buffer, bmi_size_t size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, uint8_t msg_class, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_post_recv(bmi_op_id_t * id, BMI_addr_t src, void *buffer, bmi_size_t expected_size, bmi_size_t * actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_test(bmi_op_id_t id, int *outcount, bmi_error_code_t * error_code, bmi_size_t * actual_size, void **user_ptr, int max_idle_time_ms, bmi_context_id context_id);
int BMI_testsome(int incount, bmi_op_id_t * id_array, int *outcount, int *index_array, bmi_error_code_t * error_code_array, bmi_size_t * actual_size_array, void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);
int BMI_testunexpected_class(int incount, int *outcount, struct BMI_unexpected_info *info_array, uint8_t msg_class, int max_idle_time_ms);
int BMI_testcontext(int incount, bmi_op_id_t* out_id_array, int *outcount, bmi_error_code_t * error_code_array, bmi_size_t * actual_size_array, void** user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);
void * BMI_memalloc(BMI_addr_t addr, bmi_size_t size, enum bmi_op_type send_recv);
int BMI_memfree(BMI_addr_t addr, void *buffer, bmi_size_t size, enum bmi_op_type send_recv);
int BMI_unexpected_free(BMI_addr_t addr, void *buffer);
int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter);
int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter);
int BMI_addr_lookup(BMI_addr_t * new_addr, const char *id_string);
const char* BMI_addr_rev_lookup(BMI_addr_t addr);
const char* BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);
int BMI_query_addr_range(BMI_addr_t addr, const char *id_string, int netmask);
int BMI_post_send_list(bmi_op_id_t * id, BMI_addr_t dest, const void *const *buffer_list, const bmi_size_t* size_list, int list_count, bmi_size_t total_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_post_recv_list(bmi_op_id_t * id, BMI_addr_t src, void *const *buffer_list, const bmi_size_t *size_list, int list_count, bmi_size_t total_expected_size, bmi_size_t * total_actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_post_sendunexpected_list_class(bmi_op_id_t * id, BMI_addr_t dest, const void *const *buffer_list, const bmi_size_t *size_list, int list_count, bmi_size_t total_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, uint8_t msg_class, void *user_ptr, bmi_context_id context_id, bmi_hint hints);
int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

#define BMI_post_sendunexpected(id, dest, buffer, size, buffer_type, tag, user_ptr, context_id, hints) \
    BMI_post_sendunexpected_class((id), (dest), (buffer), (size), (buffer_type), (tag), 0, (user_ptr), (context_id), (hints))
#define BMI_post_sendunexpected_list(id, dest, buffer_list, size_list, list_count, total_size, buffer_type, tag, user_ptr, context_id, hints) \
    BMI_post_sendunexpected_list_class((id), (dest), (buffer_list), (size_list), (list_count), (total_size), (buffer_type), (tag), 0, (user_ptr), (context_id), (hints))
#define BMI_testunexpected(incount, outcount, info_array, max_idle_time_ms) \
    BMI_testunexpected_class((incount), (outcount), (info_array), 0, (max_idle_time_ms))

#ifdef __cplusplus
}
#endif

#endif
