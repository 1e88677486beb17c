# Arguments: a folder, and in it the one where its server works. Waits until nobody holds the other end of standard
# input, then ends whatever still works there and removes the folder.
folder=$1 work=$2

# Signals every process whose working directory it is; fails if there is none.
signal() {
    found=1
    for process in /proc/[0-9]*; do
        if [ "$process/cwd" -ef "$work" ] && kill -s "$1" "${process#/proc/}" 2>/dev/null; then found=0; fi
    done
    return $found
}

read -r _
# PostgreSQL's immediate shutdown, which removes its shared memory; paused processes must go on to hear of it.
signal QUIT && signal CONT
tries=0
while signal 0; do
    tries=$((tries + 1))
    if [ $tries -ge 100 ]; then signal KILL; fi
    sleep 0.05
    if [ $tries -ge 200 ]; then break; fi
done
# A server that was killed has left its memory, a few bytes; its file has the number.
set -- $(sed -n 7p "$work/postmaster.pid" 2>/dev/null)
if [ -n "${2-}" ]; then ipcrm -m "$2" 2>/dev/null; fi
# Once more, should a last process have written while it ended.
rm -rf "$folder" || { sleep 0.5; rm -rf "$folder"; }
