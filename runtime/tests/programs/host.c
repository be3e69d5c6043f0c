/* Knows nothing of the runtime: loads a library that does, has it work, and ends or goes on as it is told. */
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void (*work)(void) = argc > 2 && library ? (void (*)(void))dlsym(library, "work") : 0;
    if (!work) return 1;
    work();
    if (!strcmp(argv[2], "_exit")) _exit(3);
    if (!strcmp(argv[2], "execl")) execl("/bin/sh", "sh", "-c", "exit 3", (char *)0);
    if (!strcmp(argv[2], "execv")) execv("/bin/sh", (char *[]){"sh", "-c", "exit 3", 0});
    if (!strcmp(argv[2], "fork")) {
        int status = 0;
        if (fork() == 0) {
            work();
            work();
            _exit(3);
        }
        wait(&status);
        return WEXITSTATUS(status);
    }
    return 2;
}
