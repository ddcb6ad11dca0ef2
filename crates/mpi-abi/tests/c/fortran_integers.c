#include <mpi.h>
#include <stdio.h>

static void same(const char *what, int yes) { printf("%s: %s\n", what, yes ? "same" : "another"); }

int main(void) {
    MPI_Comm dup;
    MPI_Group group;
    MPI_Info info;
    MPI_Datatype pair;
    MPI_Request request;
    MPI_Fint status[MPI_F_STATUS_SIZE];
    MPI_Status sent, got;
    int value = 7, taken = 0, count;

    MPI_Init(NULL, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_group(dup, &group);
    MPI_Info_create(&info);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Irecv(&taken, 1, MPI_INT, 0, 3, dup, &request);
    same("world", MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    same("dup", MPI_Comm_f2c(MPI_Comm_c2f(dup)) == dup);
    same("group", MPI_Group_f2c(MPI_Group_c2f(group)) == group);
    same("info", MPI_Info_f2c(MPI_Info_c2f(info)) == info);
    same("type", MPI_Type_f2c(MPI_Type_c2f(pair)) == pair);
    same("int", MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT);
    same("op", MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    same("errhandler", MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    same("request", MPI_Request_f2c(MPI_Request_c2f(request)) == request);
    same("file", MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    same("window", MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
    same("session", MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    same("message", MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);

    MPI_Send(&value, 1, MPI_INT, 0, 3, dup);
    MPI_Wait(&request, &sent);
    MPI_Status_c2f(&sent, status);
    MPI_Status_f2c(status, &got);
    MPI_Get_count(&got, MPI_INT, &count);
    printf("status: source %d tag %d count %d\n", got.MPI_SOURCE, got.MPI_TAG, count);

    MPI_Type_free(&pair);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
