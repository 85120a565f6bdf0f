//! What happens to the sources, the daemon and the machine.

use super::*;

impl World {
    /// Something happens to a source, the daemon or the machine.
    pub(super) fn turmoil(&mut self) {
        let now = self.now();
        let (what, which, version) = (self.below(100), self.below(4), self.below(3));
        // Both sources have the pods 2 and 3, and sometimes with the same text.
        let name = format!("pod{which}");
        let path = format!("{DIRECTORY}/{name}.yaml");
        let good = with_volume(&name, version, which);
        match what {
            0..20 => self.write_file(&path, &good),
            20..28 => {
                let bad = ["", "{", "kind: Pod\napiVersion: v1\n", "not: {yaml"];
                self.write_file(&path, bad[usize::try_from(version).unwrap()]);
            }
            28..34 => self.write_file(&path, &good[..good.len() / 2]),
            34..42 => {
                self.note(|| format!("turmoil: {path} goes"));
                let seen = self.below(3) > 0;
                let hub = self.hub();
                hub.disk.0.lock().unwrap().files.remove(Path::new(&path));
                if seen {
                    hub.hints.gone(&format!("{name}.yaml"));
                    self.deed(Duration::from_millis(2), Deed::Look);
                }
            }
            // One in twelve: reading it hangs.
            42..48 if which == 0 && version == 0 => {
                self.note(|| "turmoil: the directory hangs, or not".to_owned());
                let hub = self.hub();
                hub.hangs = !hub.hangs;
                hub.disk.0.lock().unwrap().unreadable = hub.hangs;
            }
            42..48 => {
                self.note(|| "turmoil: the directory can be read, or not".to_owned());
                let hub = self.hub();
                let mut disk = hub.disk.0.lock().unwrap();
                disk.unreadable = hub.hangs || !disk.unreadable;
            }
            48..66 => {
                let mut pods: Vec<String> = Vec::new();
                for n in 2..6 {
                    if self.below(3) > 0 {
                        let version = self.below(3);
                        pods.push(with_volume(&format!("pod{n}"), version, n));
                    }
                }
                let empty = "{apiVersion: v1, kind: List, items: []}\n".to_owned();
                let body = if pods.is_empty() { empty } else { pods.join("---\n") };
                self.serve(Says::Body(body));
            }
            66..70 => self.serve(Says::Body(format!("{good}---\nkind: Pod\napiVersion: v1\n"))),
            70..76 => self.serve(Says::Status("404 Not Found")),
            76..80 => self.serve(Says::Nothing),
            80..84 => self.serve(Says::Body("<html>".to_owned())),
            84..87 => self.hub().etag += 1,
            87..96 => {
                self.kill_daemon();
                self.start_daemon();
            }
            _ => {
                self.note(|| "turmoil: power cut".to_owned());
                self.kill_daemon();
                self.engine.restart_engine(Restart::PowerCut, now);
                self.start_daemon();
            }
        }
    }

    pub(super) fn serve(&mut self, says: Says) {
        self.note(|| "turmoil: the server says something else".to_owned());
        let hub = self.hub();
        hub.etag += 1;
        hub.server = says;
    }

    /// A writer writes a file, and the daemon may or may not notice.
    pub(super) fn write_file(&mut self, path: &str, text: &str) {
        self.note(|| format!("turmoil: write {} bytes to {path}", text.len()));
        let now = self.now();
        let seen = self.below(3) > 0;
        let hub = self.hub();
        hub.disk.write(path, text, &now);
        if seen {
            hub.hints.finished(path.rsplit('/').next().unwrap());
            self.deed(Duration::from_millis(2), Deed::Look);
        }
    }
}
