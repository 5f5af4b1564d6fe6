# SPDX-License-Identifier: Apache-2.0
# For images whose packages are installed by an unpatched dpkg. Maintainer scripts
# need the path of the root in D. OE-Core's patched dpkg sets D for them; an
# unpatched one does not, so this class sets it in the environment.
python debian_rootfs_scripts() {
    import os
    for name in ("D", "OFFLINE_ROOT", "IPKG_OFFLINE_ROOT", "OPKG_OFFLINE_ROOT"):
        os.environ[name] = d.getVar("IMAGE_ROOTFS")
    os.environ["NATIVE_ROOT"] = d.getVar("STAGING_DIR_NATIVE")
}
DEB_PREPROCESS_COMMANDS += "debian_rootfs_scripts"

# no SDK tasks: an SDK needs a compiler that was built from source
python () {
    for task in ("do_populate_sdk", "do_populate_sdk_ext", "do_sdk_depends"):
        bb.build.deltask(task, d)
}
