#!/bin/sh
# Compiles and links MPI programs: the compiler, with what it needs to know of MPI.
#   -show                     prints the command instead of running it
#   -showme:compile, :link    prints what is added for compiling, for linking
#   -showme:incdirs, :libdirs, :libs, :command, :version
#   -cc=COMPILER              takes another compiler, as @variable@ does
set -f
name=$(basename "$0")
prefix=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
compiler=${@variable@:-@compiler@}
command=run
links=no
stops=no
static=no

# A word as it would be typed; a path in quotes stands behind its option, where CMake looks for it.
word() {
    case $1 in
    *[!A-Za-z0-9/._,:=+@%-]* | '') ;;
    *) printf '%s' "$1"; return ;;
    esac
    rest=$1
    for option in -I -L -Wl,-rpath, -l; do
        case $1 in
        "$option"*) printf '%s' "$option"; rest=${1#"$option"}; break ;;
        esac
    done
    printf '"%s"' "$(printf '%s' "$rest" | sed 's/[\\"$`]/\\&/g')"
}

# All words in one line.
show() {
    gap=
    for shown in "$@"; do
        printf '%s' "$gap"
        word "$shown"
        gap=' '
    done
    echo
}

say() {
    printf '%s: %s\n' "$name" "$1" >&2
}

for argument in "$@"; do
    shift
    case $argument in
    -show | -showme) command=show; continue ;;
    -showme:compile | -compile-info | -compile_info) show "-I$prefix/include" @flags@; exit ;;
    -showme:link | -link-info | -link_info) show "-L$prefix/lib" "-Wl,-rpath,$prefix/lib" -lmpi_abi; exit ;;
    -showme:incdirs) show "$prefix/include"; exit ;;
    -showme:libdirs) show "$prefix/lib"; exit ;;
    -showme:libs) echo mpi_abi; exit ;;
    -showme:command) printf '%s\n' "$compiler"; exit ;;
    -showme:version) echo "$name: Barewire @version@ (Language: @language@)"; exit ;;
    -showme:*) say "$argument is not known: there are compile, link, incdirs, libdirs, libs, command and version"; exit 1 ;;
    -cc=* | -cxx=* | -fc=* | -f90=* | -f77=*) compiler=${argument#*=}; continue ;;
    -c | -E | -S | -M | -MM | -fsyntax-only) stops=yes ;;
    -static) static=yes ;;
    -) links=yes ;;
    -*) ;;
    *) links=yes ;;
    esac
    set -- "$@" "$argument"
done
[ $command = show ] && links=yes
[ $stops = yes ] && links=no
if [ $links = yes ] && [ $static = yes ]; then
    say "there is no static library of MPI here: leave -static out"
    exit 1
fi
[ $links = yes ] && set -- "$@" "-L$prefix/lib" "-Wl,-rpath,$prefix/lib" -lmpi_abi
# The compiler may be several words, such as `ccache gcc`.
set -- $compiler "-I$prefix/include" @flags@ "$@"
if [ $command = show ]; then
    show "$@"
    exit
fi
if ! command -v "$1" >/dev/null; then
    say "there is no compiler $1 here: install one (Debian: @package@), or name yours in @variable@"
    exit 127
fi
exec "$@"
