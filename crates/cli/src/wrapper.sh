#!/bin/sh
# Compiles and links MPI programs: the compiler, with what it needs to know of MPI.
#   -show            prints the command instead of running it
#   -showme:compile  prints what is added for compiling, -showme:link for linking
prefix=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
compile="-I$prefix/include @flags@"
link="-L$prefix/lib -Wl,-rpath,$prefix/lib -lmpi_abi"
command=run
links=no
stops=no
for argument in "$@"; do
    case $argument in
    -show | -showme) command=show ;;
    -showme:compile | -compile-info | -compile_info) echo "$compile"; exit ;;
    -showme:link | -link-info | -link_info) echo "$link"; exit ;;
    -showme:*) echo "$(basename "$0"): $argument is not known" >&2; exit 1 ;;
    -c | -E | -S | -M | -MM | -fsyntax-only) stops=yes ;;
    -*) ;;
    *) links=yes ;;
    esac
done
[ $command = show ] && [ $stops = no ] && links=yes
[ $stops = yes ] && links=no
if [ $command = show ]; then
    for argument in "$@"; do
        shift
        case $argument in
        -show | -showme) ;;
        *) set -- "$@" "$argument" ;;
        esac
    done
    [ $links = yes ] && set -- "$@" $link
    echo @compiler@ $compile "$@"
    exit
fi
if [ $links = yes ]; then
    exec @compiler@ $compile "$@" $link
fi
exec @compiler@ $compile "$@"
