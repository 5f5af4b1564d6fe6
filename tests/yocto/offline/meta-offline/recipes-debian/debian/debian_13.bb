# SPDX-License-Identifier: Apache-2.0
# Debian 13 as one recipe. It provides the sysroot for our programs, and one BitBake package
# for each Debian package of the board.
#
# EVENKEEL_DEBIAN_ROOT  tar of the Debian image's root (recipes/image/src/build-root).
#                       The recipe unpacks it as a whole and then divides it by dpkg's
#                       file lists, because it already contains the results of
#                       maintainer scripts: users, alternatives, byte code.
# EVENKEEL_DEBIAN_LOCK  list of the packages in this tar and their versions (script 'lock')
# The -dev packages and the compiler come from the tree in which BitBake runs.
SUMMARY = "Debian's packages: third-party run-time packages and the target's libraries"
HOMEPAGE = "https://www.debian.org/"
# the licence of each package is in /usr/share/doc/*/copyright
LICENSE = "CLOSED"
S = "${UNPACKDIR}"
INHIBIT_DEFAULT_DEPS = "1"
require debian-names.inc

DEBIAN_DEV = "libc6-dev linux-libc-dev libcrypt-dev libstdc++-14-dev libgcc-14-dev \
    libaio-dev liburing-dev libisal-dev libinih-dev libsystemd-dev libcap-dev zlib1g-dev libzstd-dev \
    grub-efi-amd64-bin"
# The libraries that these -dev packages need. Files that the board has are skipped below.
DEBIAN_DEV += "libc6 libgcc-s1 libstdc++6 libaio1t64 liburing2 libisal2 libinih1 libsystemd0 libcap2 zlib1g libzstd1"

do_configure[noexec] = "1"
do_compile[noexec] = "1"
do_package_qa[noexec] = "1"
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INHIBIT_SYSROOT_STRIP = "1"
AUTO_LIBNAME_PKGS = ""
EXCLUDE_PACKAGES_FROM_SHLIBS = "debian-base debian-build"

# DEBIAN_DROP lists what the recipe does not take from the tar.
# The state of dpkg and apt: the root of the image has its own.
DEBIAN_DROP = "./var/lib/apt ./var/cache/apt ./var/cache/debconf ./var/backups ./etc/apt/sources.list* \
    ./etc/passwd- ./etc/group- ./etc/shadow- ./etc/gshadow-"
# Files that depend on the machine that made the tar.
DEBIAN_DROP += "./dev/* ./etc/resolv.conf ./etc/.resolv.conf.* ./etc/hostname ./etc/machine-id ./etc/ld.so.cache"
# Links of units that Debian enables, because the image has its own presets; and nginx's default site on port 80.
DEBIAN_DROP += "./etc/systemd/system/* ./etc/systemd/user/* ./etc/rc?.d ./etc/nginx/sites-enabled/default"
# Links to modules of nginx that the image may lack.
DEBIAN_DROP += "./etc/nginx/modules-enabled/*"

# Build again if the tar changes, or any package of the tree in which BitBake runs: it has the compiler.
do_install[file-checksums] += "${EVENKEEL_DEBIAN_ROOT}:True /var/lib/dpkg/status:True"
do_install[vardepsexclude] += "EVENKEEL_DEBIAN_ROOT"
do_install() {
	for path in ${DEBIAN_DROP}; do
		echo "$path"
	done > ${WORKDIR}/drop
	tar -C ${D} --numeric-owner -xpf ${EVENKEEL_DEBIAN_ROOT} --exclude-from=${WORKDIR}/drop
	rm -rf ${WORKDIR}/dpkg
	mv ${D}${localstatedir}/lib/dpkg ${WORKDIR}/dpkg

	dpkg -L ${DEBIAN_DEV} | sort -u | while read -r path; do
		case $path in /usr/share/doc/* | /usr/share/man/* | /usr/share/lintian/*) continue ;; esac
		# Skip folders, and files that the board already has.
		{ [ -d "$path" ] && [ ! -L "$path" ]; } || [ -e "${D}$path" ] || [ -L "${D}$path" ] || [ ! -e "$path" ] || echo "$path"
	done > ${WORKDIR}/dev.list
	tar -C / --no-recursion -cf - -T ${WORKDIR}/dev.list | tar -C ${D} -xf -
	# libc.so and libm.so are linker scripts that name files below /lib. The sysroot has them below /usr/lib.
	sed -i -e 's| /lib| /usr/lib|g' ${D}/usr/lib/x86_64-linux-gnu/libc.so ${D}/usr/lib/x86_64-linux-gnu/libm.so
}

# lib/linux/uapi/x86: linux-libc-dev has the folder asm/ there.
SYSROOT_DIRS = "${includedir} ${libdir}/x86_64-linux-gnu ${libdir}/linux/uapi/x86 /usr/lib64 ${libdir}/grub ${datadir}/pkgconfig"
SYSROOT_PREPROCESS_FUNCS += "debian_users_sysroot"
# useradd.bbclass adds the users of our packages to these files of the sysroot.
debian_users_sysroot() {
	install -d ${SYSROOT_DESTDIR}${sysconfdir}
	for file in passwd group shadow gshadow login.defs; do
		[ ! -e ${D}${sysconfdir}/$file ] || install -m 0644 ${D}${sysconfdir}/$file ${SYSROOT_DESTDIR}${sysconfdir}/
	done
}

def debian_lock(d):
    with open(d.getVar("EVENKEEL_DEBIAN_LOCK")) as lock:
        return dict(line.split() for line in lock if line.strip() and not line.startswith("#"))

python () {
    bb.parse.mark_dependency(d, d.getVar("EVENKEEL_DEBIAN_LOCK"))
    packages = list(debian_lock(d))
    d.setVar("PACKAGES", " ".join(packages + ["debian-base", "debian-build"]))
    for name in packages:
        d.setVar("FILES:" + name, "")
        # Allow an empty package: build-root leaves out documentation, so a package may have no files.
        d.setVar("ALLOW_EMPTY:" + name, "1")
    for provider, names in debian_names(d).items():
        if provider not in packages:
            bb.fatal("debian-names.inc: %s is not in %s" % (provider, d.getVar("EVENKEEL_DEBIAN_LOCK")))
        d.appendVar("RPROVIDES:" + provider, " " + " ".join(names))
}
ALLOW_EMPTY:debian-base = "1"
ALLOW_EMPTY:debian-build = "1"
FILES:debian-base = ""
FILES:debian-build = ""
# debian-base has the users. It is essential, so that dpkg unpacks it before packages whose scripts need users.
PACKAGE_ADD_METADATA_DEB:debian-base = "Essential: yes"

python debian_split() {
    """Set FILES and RDEPENDS of each package from dpkg's database."""
    import os, re
    dpkg = d.expand("${WORKDIR}/dpkg")
    root = d.getVar("PKGD")
    locked = debian_lock(d)
    found, depends, provides, essential = {}, {}, {}, []
    with open(dpkg + "/status") as status:
        for paragraph in status.read().strip().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.M))
            name = fields["Package"]
            found[name] = fields["Version"]
            if fields.get("Essential") == "yes":
                essential.append(name)
            wanted = [fields[key] for key in ("Depends", "Pre-Depends") if key in fields]
            depends[name] = [re.findall(r"(?:^|\|)\s*([a-z0-9.+-]+)", group)
                             for group in ",".join(wanted).split(",") if group.strip()]
            for alias in re.findall(r"(?:^|,)\s*([a-z0-9.+-]+)", fields.get("Provides", "")):
                provides.setdefault(alias, name)
    if found != locked:
        differ = sorted(set(found.items()) ^ set(locked.items()))
        bb.fatal("the Debian root differs from EVENKEEL_DEBIAN_LOCK: " + ", ".join("%s %s" % pair for pair in differ))

    def real(path):
        """A path of dpkg's lists, after the merge of / into /usr."""
        return re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path)

    owner = {}
    for name in found:
        for list_file in (name + ".list", name + ":amd64.list"):
            if os.path.exists(os.path.join(dpkg, "info", list_file)):
                with open(os.path.join(dpkg, "info", list_file)) as paths:
                    for path in paths.read().splitlines():
                        owner.setdefault(real(path), name)
    with open(d.expand("${WORKDIR}/dev.list")) as paths:
        for path in paths.read().splitlines():
            owner.setdefault(real(path), "debian-build")

    files = {}
    for folder, folders, names in os.walk(root):
        at = folder[len(root):]
        leaves = names + [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in leaves:
            path = at + "/" + name
            source = re.sub(r"/__pycache__/([^/]+)\.cpython-\d+\.pyc$", r"/\1.py", path)
            files.setdefault(owner.get(path) or owner.get(source) or "debian-base", []).append(path)
        if not leaves and not folders and at:
            files.setdefault(owner.get(at, "debian-base"), []).append(at)
    for name, paths in files.items():
        for path in paths:
            if re.search(r"\s", path):
                bb.fatal("%s has a file with a space in its name: %s" % (name, path))
        d.setVar("FILES:" + name, " ".join(re.sub(r"([*?[])", r"[\1]", path) for path in paths))

    for name, groups in depends.items():
        wanted = set()
        for group in groups:
            # A dependency `a | b` is met by the first of its packages that is installed.
            for choice in group:
                choice = choice if choice in found else provides.get(choice)
                if choice and choice != name:
                    wanted.add(choice)
                    break
        if name == "base-files":
            # No package declares a dependency on essential packages, so base-files depends on all of them.
            wanted |= set(essential + ["debian-base"]) - {name}
        d.appendVar("RDEPENDS:" + name, " " + " ".join(sorted(wanted)))
}
PACKAGESPLITFUNCS = "debian_split populate_packages"
do_package[vardeps] += "debian_split"
do_package[file-checksums] += "${EVENKEEL_DEBIAN_LOCK}:True"
